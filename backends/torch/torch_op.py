"""A single op of PyTorch: only forward, or forward and the gradients of its operands by autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from assay_worker import Cell, DeviceTimes, Node, OpAdapter, Program, Unsupported
from assay_worker.device_times import times_of
from assay_worker.op_adapter import of_python
from torch import Tensor
from torch_capture import CapturedRun
from torch_layers import Layer
from torch_network import translate, unbiased
from torch_settings import COMPILE, as_array, autocast, format_of, observed, refuse_cell

# The results or gradients of these ops are views in PyTorch: the work is left to their reader.
VIEWS = {"concat", "reduce", "slice", "transpose"}
# Modes of torch.compile whose code is replayed as CUDA graphs.
OWN_GRAPHS = ("compile-max-autotune", "compile-reduce-overhead")


class TorchOp(OpAdapter):
    """Operands are in slots as tensors; running statistics are updated in place.

    In mode `layer` each slot has a module of torch.nn with these operands.
    """

    def __init__(self, program: Program, cell: Cell) -> None:
        refuse_cell(cell, program)
        super().__init__(program, cell)
        self._device = torch.device(cell.device)
        self._peak = 0  # bytes that the allocator held at most, before its count was reset
        self._format = format_of(cell)
        self._written_out = any(node.op in VIEWS for node in self.graph.nodes)
        self._plan = [
            (self._translate(node), list(node.inputs), str(node.outputs[0])) for node in self.graph.nodes
        ]
        self._outputs = list(self.graph.outputs.values())
        shapes = {value.name: value.shape for value in self.graph.values.values()}
        self._scales = unbiased(self.graph, shapes) if self.is_training else {}
        self._positions = [self.operands.index(name) for name in self.differentiated]
        self._forward: Callable[..., tuple[Tensor, ...]] = self._run
        if cell.mode in COMPILE:
            # PyTorch does not compile an LSTM: it runs as it is.
            self._forward = torch.compile(self._run, **COMPILE[cell.mode])
        # Each round draws other masks, as it has other operands.
        torch.manual_seed(cell.seed)

    def place(self, name: str, array: np.ndarray) -> Tensor:
        # Always a copy: the buffer belongs to the batch library. PyTorch's indices are 64 bits wide.
        dtype = torch.int64 if array.dtype == np.int32 else torch.from_numpy(np.empty(0, array.dtype)).dtype
        held = torch.empty(array.shape, dtype=dtype, device=self._device)
        if held.dim() == 4:
            held = held.to(memory_format=self._format)
        held.copy_(torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape)))
        if name in self.masks:
            return held.bool()
        if name in self._scales:
            return held.mul_(self._scales[name])
        return held.requires_grad_(name in self.differentiated)

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        super().stage(slot, inputs, labels)
        if self.cell.mode == "layer":
            operands, cotangents = self._slots[slot]
            held = dict(zip(self.operands, operands, strict=True))
            self._slots[slot] = [Layer(self.graph.nodes[0], self.graph.values, held)], cotangents

    def fetch(self, name: str, tensor: Tensor) -> np.ndarray:
        return as_array(tensor / self._scales[name] if name in self._scales else tensor)

    def compute(self, given: list[Any], cotangents: list[Any]) -> Sequence[Tensor]:
        if self.cell.mode == "layer":
            return self._call(given[0], cotangents)
        if not self.is_training:
            with torch.inference_mode(), autocast(self.cell):
                return self._forward(*given)
        with autocast(self.cell):
            results = self._forward(*given)
        differentiated = [given[position] for position in self._positions]
        gradients = torch.autograd.grad(results, differentiated, cotangents)
        return [*results, *(self._written(gradient) for gradient in gradients)]

    def _call(self, layer: Layer, cotangents: list[Tensor]) -> Sequence[Tensor]:
        if not self.is_training:
            with torch.inference_mode(), autocast(self.cell):
                return [layer()]
        with autocast(self.cell):
            result = layer()
        differentiated = [layer.tensors[name] for name in self.differentiated]
        return [result, *torch.autograd.grad([result], differentiated, cotangents)]

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def device_times(self) -> DeviceTimes:
        if self._device.type != "cuda":
            raise Unsupported("[time_device] the op is on the CPU")
        if self._host:
            raise Unsupported("[time_device] a CUDA graph cannot read an array or a list of the host")
        if self.cell.mode in OWN_GRAPHS:
            raise Unsupported("[time_device] the mode has CUDA graphs of its own: --mode compile")
        self._peak = self._framework_peak()
        # Results of a step outside of a capture have gradients that autograd would add up there.
        self._found = ()
        try:
            return times_of(len(self._slots), self._recorded)
        finally:
            # A later fork of this process has neither the graph's memory nor its peak.
            self._found = ()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def _recorded(self, steps: int) -> Callable[[], float]:
        """Record that many steps, over the operands in turn."""
        slots = sorted(self._slots)

        def run() -> None:
            for step in range(steps):
                self.step(slots[step % len(slots)], 0.0, step + 1)

        return CapturedRun(run).seconds

    def _framework_peak(self) -> int:
        return max(self._peak, int(torch.cuda.max_memory_allocated()))

    def memory(self) -> dict[str, int]:
        if self._device.type != "cuda":
            return {}
        return {"framework_peak": self._framework_peak()}

    def settings(self) -> dict[str, str]:
        return observed(self.cell)

    def _translate(self, node: Node) -> Callable[..., Tensor]:
        op = translate(node)
        if not of_python(node) or self._device.type == "cpu":
            return op
        return lambda given: op(given).to(self._device)

    def _run(self, *given: Any) -> tuple[Tensor, ...]:
        values: dict[str, Any] = {**self.states}
        values.update(zip(self.given, given, strict=True))
        for op, inputs, result in self._plan:
            values[result] = op(*[None if name is None else values[name] for name in inputs])
        return tuple(self._written(values[name]) for name in self._outputs)

    def _written(self, result: Tensor) -> Tensor:
        if not self._written_out:
            return result
        return result.contiguous(memory_format=self._format if result.dim() == 4 else torch.contiguous_format)
