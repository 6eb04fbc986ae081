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
# Their results or gradients are views in PyTorch, which leave the work to whoever reads them.
VIEWS = {"concat", "reduce", "slice", "transpose"}
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
        self._format = torch.channels_last if cell.layout == "channels_last" else torch.contiguous_format
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
        self._mask_names = [value.name for value in graph.with_role("mask")]
        self._supplied: list[Tensor | None] = [None] * len(self._mask_names)
        self._cotangents = [name for name in program.cotangents.values() if self._train]
        self._operands = [name for name in self._fed if name not in self._cotangents]
        self._differentiated = program.differentiated if self._train else []
        self._written_out = any(node.op in VIEWS for node in graph.nodes)
        self._states = {value.name: torch.zeros(value.shape, device=self._device) for value in program.states}
        self._slots: dict[int, tuple[list[Tensor], list[Tensor], list[Tensor]]] = {}
        self._found: list[Tensor] = []
        self._forward: Callable[..., tuple[Tensor, ...]] = self._run
        if cell.mode == "compile":
            # PyTorch has no compiled LSTM: it runs as it is.
            whole = all(node.op != "lstm" for node in graph.nodes)
            self._forward = torch.compile(self._run, fullgraph=whole, dynamic=False)
        # Masks of a round differ as its operands do.
        torch.manual_seed(cell.request.get("seed", 1))

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
                self._found = list(self._forward(*operands, *self._supplied))
            return
        with autocast(self._cell):
            results = self._forward(*operands, *self._supplied)
        gradients = torch.autograd.grad(results, differentiated, cotangents)
        self._found = [*results, *(self._written(gradient) for gradient in gradients)]

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def results(self) -> Tensors:
        names = [*self._graph.outputs, *(f"gradient/{name}" for name in self._differentiated)]
        return {name: as_array(tensor) for name, tensor in zip(names, self._found, strict=True)}

    def supply_masks(self, masks: Tensors) -> None:
        # torch.compile makes a second graph of the same op, in which the mask is an operand.
        self._supplied = [self._tensor(masks[name]).bool() if masks else None for name in self._mask_names]

    def draw_masks(self, slot: int) -> Tensors:
        self.step(slot, 0.0, 1)
        found = self.results()
        operands = dict(zip(self._operands, self._slots[slot][0], strict=True))
        masks = {}
        for op in (node for node in self._graph.nodes if node.op == "dropout"):
            x = as_array(operands[str(op.inputs[0])])
            y = next(found[name] for name, value in self._graph.outputs.items() if value == op.outputs[0])
            # What was 0 before is 0 afterwards, whether it was kept or not.
            masks[str(op.inputs[1])] = np.where(x == 0, 255, y != 0).astype(np.uint8)
        return masks

    def memory(self) -> dict[str, int]:
        if self._device.type != "cuda":
            return {}
        return {"framework_peak": torch.cuda.max_memory_allocated()}

    def settings(self) -> dict[str, str]:
        return observed(self._cell)

    def _run(self, *given: Tensor | None) -> tuple[Tensor, ...]:
        values: dict[str | None, Tensor | None] = {None: None, **self._states}
        values.update(zip([*self._operands, *self._mask_names], given, strict=True))
        for op, inputs, result in self._plan:
            values[result] = op(*[values[name] for name in inputs])
        return tuple(self._written(values[name]) for name in self._graph.outputs.values())

    def _written(self, result: Tensor) -> Tensor:
        if not self._written_out:
            return result
        return result.contiguous(memory_format=self._format if result.dim() == 4 else torch.contiguous_format)

    def _translate(self, node: Node) -> Callable[..., Tensor]:
        if node.op in HOST:
            return lambda given: torch.tensor(given, dtype=torch.float32, device=self._device)
        return translate(node)

    def _tensor(self, array: np.ndarray) -> Tensor:
        # Always a copy: the buffer belongs to the batch library. PyTorch's indices are 64 bits wide.
        dtype = torch.int64 if array.dtype == np.int32 else torch.from_numpy(np.empty(0, array.dtype)).dtype
        held = torch.empty(array.shape, dtype=dtype, device=self._device)
        if held.dim() == 4:
            held = held.to(memory_format=self._format)
        return held.copy_(torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape)))
