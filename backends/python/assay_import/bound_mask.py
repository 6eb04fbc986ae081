"""An input that is bound to not_equal(tokens, padding): the mask of the tokens that count."""

from __future__ import annotations

import re

from .errors import Refused
from .graph import Graph, Source

FORM = re.compile(r"not_equal\((?P<input>.+), *(?P<padding>\d{1,9})\)")


def bind_mask(graph: Graph, name: str, text: str, dtype: str) -> None:
    """Add the node that has 1 where a token is not padding, and 0 elsewhere."""
    found = FORM.fullmatch(text)
    if found is None:
        raise Refused(f"--bind {name}={text}: the form is not_equal(INPUT, NUMBER)")
    tokens = graph.inputs.get(found["input"])
    if tokens is None or tokens.dtype != "int" or len(tokens.shape) != 2:
        raise Refused(f"--bind {name}={text}: '{found['input']}' is not the input of tokens (N, T)")
    padding = int(found["padding"])
    graph.add("not_equal", [found["input"]], name, Source("not_equal", name), dtype, padding=padding)
