"""Single operators as tables of sizes: the smallest of benchmark A of Paltenghi et al. 2020."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Operator:
    size: str  # as --size takes it
    shapes: tuple[tuple[int, ...], ...]  # of its operands
    has_layer: bool = False  # whether frameworks have a layer for it
    is_created: bool = False  # its operand is an array or a list of Python


OPERATORS = {
    "op/sigmoid": Operator("500", ((500,),), has_layer=True),
    "op/relu": Operator("500", ((500,),), has_layer=True),
    "op/tanh": Operator("500", ((500,),), has_layer=True),
    "op/softplus": Operator("500", ((500,),), has_layer=True),
    "op/softsign": Operator("500", ((500,),), has_layer=True),
    "op/dot": Operator("1000", ((1000,), (1000,))),
    "op/gemm": Operator("m50", ((50, 50), (50, 50)), has_layer=True),
    "op/flatten_matrix": Operator("m50", ((50, 50),)),
    "op/normalise": Operator("m50", ((50, 50),)),
    "op/from_array": Operator("20000", ((20000,),), is_created=True),
    "op/from_list": Operator("5000", ((5000, 2),), is_created=True),
    "op/from_rows": Operator("5000", ((1, 5000),), is_created=True),
}
PRODUCTS = ("op/dot", "op/gemm")


def operands_of(name: str) -> list[Any]:
    """Return the operands; that of from_list is a list of numbers, and that of from_rows a list of arrays."""
    random = np.random.default_rng(1)
    if name == "op/from_list":
        found: list[Any] = random.uniform(-1, 1, OPERATORS[name].shapes[0][0]).tolist()
        return [found]
    arrays = [random.uniform(-1, 1, shape).astype(np.float32) for shape in OPERATORS[name].shapes]
    return [[*arrays[0]]] if name == "op/from_rows" else arrays
