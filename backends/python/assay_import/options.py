"""Options of an import: shapes, values for inputs, the output, switches."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from . import limits
from .contents import begin_of, other_kind, size_of
from .errors import Refused
from .limits import USABLE
from .shapes import Shape
from .values import unusable_at

BATCH = "N"
Extents = tuple[int | str, ...]  # the first one is the batch, N


@dataclass(frozen=True)
class Options:
    shapes: dict[str, Extents] = field(default_factory=dict)
    bound: dict[str, str] = field(default_factory=dict)
    output: str = ""
    no_lift: frozenset[str] = frozenset()
    free_batch: bool = False
    train_constants: bool = False


def pair(text: str, form: str) -> tuple[str, str]:
    """Cut NAME=VALUE at the last = that is not inside of the value."""
    name, found, value = text.partition("=")
    if not found or not name or not value:
        raise Refused(f"'{text}' is not of the form {form}")
    return name, value


def read_shape(text: str) -> tuple[str, Extents]:
    """Read x=N,3,224,224."""
    name, value = pair(text, "NAME=N,3,224,224")
    extents: list[int | str] = []
    for i, each in enumerate(part.strip() for part in value.split(",")):
        if i == 0 and each == BATCH:
            extents.append(BATCH)
        elif each.isascii() and each.isdigit() and 0 < int(each) <= limits.ELEMENTS:
            extents.append(int(each))
        else:
            raise Refused(
                f"--shape {text}: '{each}' is not a positive number (the first one may be N, the batch)"
            )
    return name, tuple(extents)


def with_batch(extents: Extents, batch: int) -> Shape:
    return tuple(batch if extent == BATCH else int(extent) for extent in extents)


def extents_of(
    name: str, declared: Sequence[int | None] | None, options: Options, fixed: bool = True
) -> Extents:
    """Return the shape of an input: as --shape gives it, or as the file has it with a free batch.

    fixed: --shape may only give extents that the file leaves free; else those of another size, too.
    """
    given = options.shapes.get(name)
    if given is not None:
        fits = declared is None or (
            len(declared) == len(given)
            and all(
                not fixed or mine in (None, other) or other == BATCH
                for mine, other in zip(declared, given, strict=True)
            )
        )
        if not fits:
            raise Refused(
                f"--shape {name}={','.join(map(str, given))} does not fit the file's {shown(declared)}"
            )
        if given[0] != BATCH:
            raise Refused(f"--shape {name}: the first extent must be N, the batch")
        return given
    if declared is None or None in declared[1:] or not declared:
        raise Refused(
            f"the input '{name}' has the shape {shown(declared)}: give the free extents, as in "
            f"--shape {name}=N,3,224,224"
        )
    return (BATCH, *(int(extent or 0) for extent in declared[1:]))


def shown(declared: Sequence[int | None] | None) -> str:
    if declared is None:
        return "unknown"
    return f"({', '.join('?' if extent is None else str(extent) for extent in declared)})"


def bound_value(name: str, text: str, dtype: np.dtype[np.generic], shape: Shape | None) -> np.ndarray:
    """Return the elements that --bind NAME=TEXT gives to an input."""
    if text.endswith(".npy"):
        return from_file(name, Path(text), dtype, shape)
    words = {"ones": 1.0, "zeros": 0.0}
    try:
        value = words[text] if text in words else float(ast.literal_eval(text))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, OverflowError):
        raise Refused(
            f'--bind {name}={text}: give ones, zeros, a number, a file FILE.npy, or "not_equal(INPUT, 0)"'
        ) from None
    if shape is None:
        raise Refused(
            f"--bind {name}={text}: the input has free extents; give them with --shape {name}=N,..."
        )
    if math.prod(shape) > limits.FOLDED_ELEMENTS:
        raise Refused(f"--bind {name}: {math.prod(shape)} elements; the limit is {limits.FOLDED_ELEMENTS}")
    if not math.isfinite(value) or (dtype.kind in "iub" and value != int(value)):
        raise Refused(f"--bind {name}={text}: the input has elements of {dtype}")
    return np.full(shape, value).astype(dtype)


def from_file(name: str, path: Path, dtype: np.dtype[np.generic], shape: Shape | None) -> np.ndarray:
    size_of(path, limits.EXTERNAL_BYTES)  # a pipe would be waited for
    try:
        held = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        kind = other_kind(begin_of(path)) or f"cannot be read as an array: {error}"
        raise Refused(f"--bind {name}: {path} {kind}") from None
    if held.size > limits.FOLDED_ELEMENTS:
        raise Refused(
            f"--bind {name}: {path} has {held.size} elements; the limit is {limits.FOLDED_ELEMENTS}"
        )
    if held.dtype.kind != dtype.kind:
        raise Refused(f"--bind {name}: {path} has elements of {held.dtype}; the input has {dtype}")
    if (at := unusable_at(held)) is not None:
        raise Refused(f"--bind {name}: {path} has at {list(at)} the value {held[at]}; {USABLE}")
    try:
        return np.array(np.broadcast_to(held, shape if shape is not None else held.shape)).astype(dtype)
    except ValueError:
        raise Refused(f"--bind {name}: {path} has the shape {held.shape}; the input has {shape}") from None
