"""Programs that no adapter of this package runs.

The rules in a backend.json are the conductor's: it starts no worker for a cell that they refuse.
"""

from __future__ import annotations

from .errors import Unsupported
from .program import Program


def refuse(program: Program) -> None:
    """Raise Unsupported for a network with several inputs, or with outputs other than logits."""
    if not program.is_op and (program.packs_inputs or set(program.inference.outputs) != {"logits"}):
        raise Unsupported("[network] this adapter runs networks with one input and the output logits")
