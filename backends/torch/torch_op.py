"""A single op of PyTorch: forward alone, or forward and the gradients of its operands by autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from assay_worker import Cell, Node, OpAdapter, Program, Unsupported
from assay_worker.op_adapter import HOST
from torch import Tensor
from torch_network import translate
from torch_settings import as_array, autocast, observed, refuse_cell


class TorchOp(OpAdapter):
    """Operands lie in slots as tensors; running statistics are updated in place."""

    def __init__(self, program: Program, cell: Cell, check: bool) -> None:
        refuse_cell(cell)
        if cell.mode == "cudagraph":
            raise Unsupported(f"[{program.training.name}] a single op is not captured: --mode compile")
        if cell.mode == "compile" and any(node.op == "lstm" for node in program.training.nodes):
            raise Unsupported("[lstm] torch.compile leaves PyTorch's LSTM as it is: --mode eager")
        super().__init__(program, cell)
        self._device = torch.device(cell.device)
        self._plan = [
            (self._translate(node), list(node.inputs), str(node.outputs[0])) for node in self.graph.nodes
        ]
        self._outputs = list(self.graph.outputs.values())
        self._positions = [self.operands.index(name) for name in self.differentiated]
        self._forward: Callable[..., tuple[Tensor, ...]] = self._run
        if cell.mode == "compile":
            self._forward = torch.compile(self._run, fullgraph=True, dynamic=False)

    def place(self, name: str, array: np.ndarray) -> Tensor:
        # Always a copy: the buffer belongs to the batch library. PyTorch's indices are 64 bits wide.
        dtype = torch.int64 if array.dtype == np.int32 else torch.from_numpy(np.empty(0, array.dtype)).dtype
        held = torch.empty(array.shape, dtype=dtype, device=self._device)
        if held.dim() == 4 and self.cell.layout == "channels_last":
            held = held.to(memory_format=torch.channels_last)
        held.copy_(torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape)))
        return held.requires_grad_(name in self.differentiated)

    def fetch(self, name: str, tensor: Tensor) -> np.ndarray:
        return as_array(tensor)

    def compute(self, operands: list[Any], cotangents: list[Any]) -> Sequence[Tensor]:
        if not self.train:
            with torch.inference_mode(), autocast(self.cell):
                return self._forward(*operands)
        with autocast(self.cell):
            results = self._forward(*operands)
        differentiated = [operands[position] for position in self._positions]
        return [*results, *torch.autograd.grad(results, differentiated, cotangents)]

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def memory(self) -> dict[str, int]:
        if self._device.type != "cuda":
            return {}
        return {"framework_peak": torch.cuda.max_memory_allocated()}

    def settings(self) -> dict[str, str]:
        return observed(self.cell)

    def _translate(self, node: Node) -> Callable[..., Tensor]:
        op = translate(node)
        if node.op not in HOST or self._device.type == "cpu":
            return op
        return lambda given: op(given).to(self._device)

    def _run(self, *operands: Any) -> tuple[Tensor, ...]:
        values: dict[str | None, Any] = {None: None, **self.states}
        values.update(zip(self.operands, operands, strict=True))
        for op, inputs, result in self._plan:
            values[result] = op(*[values[name] for name in inputs])
        return tuple(values[name] for name in self._outputs)
