"""A single op of MXNet: forward alone, or forward and the gradients of its operands by autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from assay_worker import Cell, OpAdapter, Program
from mxnet import autograd, gluon, nd
from mxnet_network import apply, translate
from mxnet_settings import STATIC, observed, refuse_cell


class OpBlock(gluon.HybridBlock):
    """The nodes of an op's graph as one block, which takes every operand and keeps none."""

    def __init__(self, program: Program, task: str, names: list[str]) -> None:
        super().__init__()
        graph = program.graph(task)
        # In a list: no children, for their own parameters are not used.
        self._plan = [(node, translate(node, graph.values)) for node in graph.nodes]
        self._names, self._outputs = names, list(graph.outputs.values())
        self._batch = {value.name: value.shape[0] for value in graph.values.values() if value.shape}

    def hybrid_forward(self, F: Any, *operands: Any) -> Any:
        values: dict[str | None, Any] = {None: None, **dict(zip(self._names, operands, strict=True))}
        for node, block in self._plan:
            given = [values[name] for name in node.inputs]
            batch = self._batch.get(str(node.inputs[0]), 0)
            values[str(node.outputs[0])] = apply(node, block, F, given, batch)
        return [values[name] for name in self._outputs]


class MxnetOp(OpAdapter):
    """Running statistics are MXNet's auxiliary states: it updates them in place."""

    def __init__(self, program: Program, cell: Cell, check: bool) -> None:
        refuse_cell(cell)
        super().__init__(program, cell)
        block = OpBlock(program, cell.task, [*self.operands, *(v.name for v in program.states)])
        self._run: Callable[..., Sequence[nd.NDArray]] = block
        if cell.mode == "hybridize":
            block.hybridize(**STATIC)
        else:
            # By itself, without what a block does around it: an operand may be a list.
            self._run = lambda *operands: block.hybrid_forward(nd, *operands)
        self._positions = [self.operands.index(name) for name in self.differentiated]

    def place(self, name: str, array: np.ndarray) -> nd.NDArray:
        held = nd.array(array.reshape(array.shape or (1,)), dtype=self._type_of(array))
        if name in self.differentiated:
            held.attach_grad()
        return held

    def fetch(self, name: str, tensor: nd.NDArray) -> np.ndarray:
        # MXNet has no scalars.
        return tensor.asnumpy().reshape(self.graph.values[name].shape)

    def compute(self, operands: list[Any], cotangents: list[nd.NDArray]) -> Sequence[nd.NDArray]:
        if not self.train:
            return self._run(*operands, *self.states.values())
        with autograd.record():
            results = self._run(*operands, *self.states.values())
        autograd.backward(results, cotangents)
        return [*results, *(operands[position].grad for position in self._positions)]

    def synchronize(self) -> None:
        nd.waitall()

    def settings(self) -> dict[str, str]:
        return observed()

    @staticmethod
    def _type_of(array: np.ndarray) -> type:
        return np.int32 if array.dtype == np.int32 else np.float32
