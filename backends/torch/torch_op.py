"""A single op of PyTorch: forward alone, or forward and the gradients of its operands by autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from assay_worker import Cell, Info, Node, OpAdapter, Program, Unsupported, boxed_numbers
from torch import Tensor
from torch_network import translate
from torch_settings import as_array, autocast, configure, observed, refuse_cell

Tensors = dict[str, np.ndarray]
HOST: dict[str, Callable[[np.ndarray], Any]] = {"from_array": np.copy, "from_list": boxed_numbers}


class TorchOp(OpAdapter):
    """Operands lie in slots as tensors; running statistics are updated in place."""

    @classmethod
    def info(cls, cell: Cell) -> Info:
        configure(cell)
        return Info("torch", torch.__version__, [], observed(cell))

    def __init__(self, program: Program, cell: Cell, check: bool) -> None:
        refuse_cell(cell)
        self._cell = cell
        self._program = program
        self._device = torch.device(cell.device)
        self._train = cell.task == "train"
        self._graph = graph = program.graph(cell.task)
        self._plan = [
            (self._translate(node), list(node.inputs), str(node.outputs[0])) for node in graph.nodes
        ]
        # What stays a program's own array or list until the step makes a tensor of it.
        self._host = {str(node.inputs[0]): HOST[node.op] for node in graph.nodes if node.op in HOST}
        if self._host and cell.mode == "compile":
            raise Unsupported("[compile] a tensor is made of an array or a list outside of compiled code")
        self._fed = [value.name for value in graph.with_role("input")]
        self._cotangents = [name for name in program.cotangents.values() if self._train]
        self._operands = [name for name in self._fed if name not in self._cotangents]
        self._differentiated = program.differentiated if self._train else []
        self._states = {value.name: torch.zeros(value.shape, device=self._device) for value in program.states}
        self._slots: dict[int, tuple[list[Tensor], list[Tensor], list[Tensor]]] = {}
        self._found: list[Tensor] = []
        self._forward: Callable[..., tuple[Tensor, ...]] = self._run
        if cell.mode == "compile":
            self._forward = torch.compile(self._run, fullgraph=True, dynamic=False)

    def set_state(self, tensors: Tensors) -> None:
        for value in self._program.states:
            given = tensors.get(value.name)
            if given is None:
                given = np.full(value.shape, value.initializer == "ones", np.float32)
            self._states[value.name].copy_(torch.from_numpy(np.array(given, np.float32)))

    def state(self) -> Tensors:
        return {name: as_array(tensor) for name, tensor in self._states.items()}

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        held: dict[str, Any] = {}
        for name, array in self._graph.unpack(inputs).items():
            held[name] = self._host[name](array) if name in self._host else self._tensor(array)
        for name in self._differentiated:
            held[name].requires_grad_()
        self._slots[slot] = (
            [held[name] for name in self._operands],
            [held[name] for name in self._differentiated],
            [held[name] for name in self._cotangents],
        )

    def step(self, slot: int, learning_rate: float, step: int) -> None:
        operands, differentiated, cotangents = self._slots[slot]
        if not self._train:
            with torch.inference_mode(), autocast(self._cell):
                self._found = list(self._forward(*operands))
            return
        with autocast(self._cell):
            results = self._forward(*operands)
        self._found = [*results, *torch.autograd.grad(results, differentiated, cotangents)]

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def results(self) -> Tensors:
        names = [*self._graph.outputs, *(f"gradient/{name}" for name in self._differentiated)]
        return {name: as_array(tensor) for name, tensor in zip(names, self._found, strict=True)}

    def memory(self) -> dict[str, int]:
        if self._device.type != "cuda":
            return {}
        return {"framework_peak": torch.cuda.max_memory_allocated()}

    def settings(self) -> dict[str, str]:
        return observed(self._cell)

    def _run(self, *operands: Tensor) -> tuple[Tensor, ...]:
        values: dict[str | None, Tensor | None] = {None: None, **self._states}
        values.update(zip(self._operands, operands, strict=True))
        for op, inputs, result in self._plan:
            values[result] = op(*[values[name] for name in inputs])
        return tuple(values[name] for name in self._graph.outputs.values())

    def _translate(self, node: Node) -> Callable[..., Tensor]:
        if node.op in HOST:
            return lambda given: torch.tensor(given, dtype=torch.float32, device=self._device)
        return translate(node)

    def _tensor(self, array: np.ndarray) -> Tensor:
        # Always a copy: the buffer belongs to the batch library. PyTorch's indices are 64 bits wide.
        dtype = torch.int64 if array.dtype == np.int32 else torch.from_numpy(np.empty(0, array.dtype)).dtype
        held = torch.empty(array.shape, dtype=dtype, device=self._device)
        if held.dim() == 4 and self._cell.layout == "channels_last":
            held = held.to(memory_format=torch.channels_last)
        return held.copy_(torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape)))
