"""A single op of MXNet: only forward, or forward and the gradients of its operands by autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from assay_worker import Cell, OpAdapter, Program
from assay_worker.tensors import Tensors
from mxnet import autograd, gluon, nd
from mxnet_arrays import to_mxnet, to_numpy
from mxnet_functions import Block, Bound
from mxnet_network import apply, translate
from mxnet_settings import MODES, observed, refuse_cell, use_device


class OpBlock(gluon.HybridBlock):
    """The nodes of an op's graph as one block. Every operand is an argument: it has no parameters."""

    def __init__(self, program: Program, task: str, names: list[str]) -> None:
        super().__init__()
        graph = program.graph(task)
        # In a list, so that they are not children: their own parameters are not used.
        self._plan = [(node, translate(node, graph.values)) for node in graph.nodes]
        self._names, self._outputs = names, list(graph.outputs.values())
        self._batch = {value.name: value.shape[0] for value in graph.values.values() if value.shape}

    def hybrid_forward(self, F: Any, *operands: Any) -> Any:
        # Masks come last. A dropout that draws has no mask.
        values: dict[str | None, Any] = dict.fromkeys([None, *self._names])
        values.update(zip(self._names, operands, strict=False))
        for node, block in self._plan:
            given = [values[name] for name in node.inputs]
            batch = self._batch.get(str(node.inputs[0]), 0)
            values[str(node.outputs[0])] = apply(node, block, F, given, batch)
        return [values[name] for name in self._outputs]


class MxnetOp(OpAdapter):
    """Running statistics are MXNet's auxiliary states: it updates them in place.

    In modes `function` and `layer` a step is one call of a function or a block, which has its operands.
    """

    def __init__(self, program: Program, cell: Cell) -> None:
        refuse_cell(cell, program)
        use_device(cell)
        super().__init__(program, cell)
        names = [*self.operands, *(value.name for value in program.states), *self.masks]
        self._block = block = OpBlock(program, cell.task, names)
        self._run: Callable[..., Sequence[nd.NDArray]] = block
        if MODES[cell.mode]:
            block.hybridize(**MODES[cell.mode])
        else:
            # Called directly and not as a block: an operand may be a list.
            self._run = lambda *operands: block.hybrid_forward(nd, *operands)
        self._is_call = cell.mode in ("function", "layer")
        self._positions = [self.operands.index(name) for name in self.differentiated]

    def place(self, name: str, array: np.ndarray) -> nd.NDArray:
        held = to_mxnet(array.reshape(array.shape or (1,)).astype(self._type_of(array), copy=False))
        if name in self.differentiated:
            held.attach_grad()
        return held

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        super().stage(slot, inputs, labels)
        if self._is_call:
            operands, cotangents = self._slots[slot]
            self._slots[slot] = [self._bound(dict(zip(self.operands, operands, strict=True)))], cotangents

    def fetch(self, name: str, tensor: nd.NDArray) -> np.ndarray:
        # MXNet has no scalars.
        return to_numpy(tensor).reshape(self.graph.values[name].shape)

    def compute(self, given: list[Any], cotangents: list[nd.NDArray]) -> Sequence[nd.NDArray]:
        if self._is_call:
            return self._call(given[0], cotangents)
        operands, masks = given[: len(self.operands)], given[len(self.operands) :]
        fed = [*operands, *self.states.values(), *(mask for mask in masks if mask is not None)]
        if not self.is_training:
            with autograd.train_mode() if masks else nullcontext():
                return self._run(*fed)
        with autograd.record():
            results = self._run(*fed)
        autograd.backward(results, cotangents)
        return [*results, *(operands[position].grad for position in self._positions)]

    def _bound(self, held: dict[str, Any]) -> Bound | Block:
        (node,) = self.graph.nodes
        return Block(node, self.graph.values, held) if self.cell.mode == "layer" else Bound(node, held)

    def _call(self, run: Bound | Block, cotangents: list[nd.NDArray]) -> Sequence[nd.NDArray]:
        if not self.is_training:
            return run()
        with autograd.record():
            results = run()
        autograd.backward(results, cotangents)
        return [*results, *(run.gradient(name) for name in self.differentiated)]

    def supply_masks(self, masks: Tensors) -> None:
        super().supply_masks(masks)
        if self.masks and MODES[self.cell.mode]:
            self._block.hybridize(**MODES[self.cell.mode])  # again: it takes other operands

    def synchronize(self) -> None:
        nd.waitall()

    def settings(self) -> dict[str, str]:
        return observed()

    @staticmethod
    def _type_of(array: np.ndarray) -> type:
        return np.int32 if array.dtype == np.int32 else np.float32
