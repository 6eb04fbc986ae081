"""PyTorch as an assay_worker.TrainingAdapter."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

import numpy as np
import torch
from assay_worker import (
    Adapter,
    Cell,
    Exchange,
    Info,
    Library,
    Program,
    Samples,
    TrainingAdapter,
    Unsupported,
    loaded_libraries,
    memory_share,
)
from assay_worker.tensors import same_tensors
from torch import Tensor
from torch.utils.data import DataLoader
from torch_aot import packaged
from torch_capture import CapturedStep
from torch_decoder import Decoder
from torch_loader import make_loader
from torch_network import Network
from torch_op import TorchOp
from torch_optimizer import MOMENTS, Optimizers
from torch_ranks import agreed, exchange_of, join_ranks, shared
from torch_settings import COMPILE, as_array, autocast, configure, format_of, observed, refuse_cell
from torch_upload import Upload

Tensors = dict[str, np.ndarray]

FROZEN = ("freeze", "aot")  # modes whose compiled code has the weights as constants


class TorchAdapter(TrainingAdapter):
    """Modes: `eager` (`cudnn-benchmark`: with cuDNN's search), `compile` for torch.compile of the forward and
    backward pass, also with its modes, `cudagraph`, for tasks infer and decode `freeze`: compiled with the
    weights as constants, and for infer `aot`: compiled ahead of time."""

    @classmethod
    def info(cls, cell: Cell) -> Info:
        configure(cell)
        return Info("torch", torch.__version__, _libraries(), observed(cell))

    @classmethod
    def of(cls, program: Program) -> type[Adapter]:
        return TorchOp if program.is_op else cls

    def __init__(self, program: Program, cell: Cell) -> None:
        refuse_cell(cell, program)
        self._program = program
        self._cell = cell
        self._train = cell.task == "train"
        self._device = torch.device(cell.device)
        self._memory_share = _limit_memory(cell, self._device)
        self._format = format_of(cell)
        casts = cell.precision == "bf16" and not self._train
        self._network = Network(program, cell.task, casts).to(self._device, memory_format=self._format)
        if self._train:
            self._optimizer = self._make_optimizer()
        self._captured: CapturedStep | None = None
        self._slots: dict[int, tuple[Tensor, Tensor]] = {}
        self._uploads: dict[int, tuple[Upload, Upload]] = {}  # by slot; on a GPU
        self._loss: Tensor | None = None
        self._logits: Tensor | None = None  # of the last inference
        self._frozen: Tensors = {}
        self._restarted = True
        join_ranks(cell)
        self._shared = shared(self._network, cell)
        self._forward: Callable[..., tuple[Tensor, ...]] = self._shared
        self._infer: Callable[[Tensor], Tensor] = self._network.infer
        self._drops: Callable[..., list[tuple[Tensor, Tensor]]] = self._network.drops
        if cell.mode in COMPILE:
            options = COMPILE[cell.mode]
            # PyTorch does not compile an LSTM: it runs as it is; the ops before and after are compiled.
            # As users compile: `fullgraph` and `dynamic=False` each add 10 us to a call. The setting
            # graph_breaks has what `fullgraph` would refuse.
            self._forward = torch.compile(self._forward, **options)
            self._drops = torch.compile(self._network.drops)
            if cell.task == "infer":  # a training run evaluates outside of the timed steps
                self._infer = torch.compile(self._network.infer, **options)
        self._decoder = Decoder(program.decoding, self._network, cell) if program.decoding else None
        self._inference = torch.inference_mode()
        if not self._train:  # around the whole loop, as in users' code, not around each step
            self._inference.__enter__()
        # Each round draws other masks, as it has other parameters.
        torch.manual_seed(cell.seed)
        self._order = torch.Generator().manual_seed(cell.seed)  # of the own loader
        self._loader: DataLoader | None = None

    def _make_optimizer(self) -> Optimizers:
        nodes = self._program.training.nodes
        sparse = {node.inputs[1] for node in nodes if node.attributes.get("sparse_gradient")}
        parameters = [value.name for value in self._program.parameters]
        return Optimizers(
            self._program.optimizer,
            [self._network.tensor(name) for name in parameters if name not in sparse],
            [self._network.tensor(name) for name in parameters if name in sparse],
            self._device if self._cell.mode == "cudagraph" else None,
        )

    def set_state(self, tensors: Tensors) -> None:
        frozen = self._cell.mode in FROZEN and same_tensors(tensors, self._frozen)
        if self._cell.mode == "freeze" and not frozen:
            torch.compiler.reset()  # the weights are constants of the compiled code
        self._frozen = tensors if self._cell.mode in FROZEN else {}
        with torch.no_grad():
            for value in self._program.parameters + self._program.states:
                given = tensors.get(value.name)
                if given is None:
                    given = np.full(value.shape, value.initializer == "ones", np.float32)
                held = np.array(given, np.float32) * np.float32(self._network.scales.get(value.name, 1))
                self._network.tensor(value.name).copy_(torch.from_numpy(held))
            self._network.keep_casts()
            if self._train:
                self._set_moments(tensors)
        if self._cell.mode == "aot" and not frozen:
            fed = self._program.inference.with_role("input")[0]
            batch = self._images(np.zeros(fed.shape, np.int32 if fed.dtype == "i32" else np.float32))
            self._infer = packaged(self._network, batch, self._cell.folder / "network.pt2")
        self._restarted = True
        if self._decoder:
            self._decoder.clear()

    def _set_moments(self, tensors: Tensors) -> None:
        for value in self._program.parameters:
            parameter = self._network.tensor(value.name)
            state = self._optimizer.state(parameter)
            # Copied in place once they exist: a captured step reads fixed addresses.
            if self._program.optimizer.kind != "sgd" and "step" not in state:
                on = self._device if self._optimizer.on_device else None
                state["step"] = torch.zeros((), dtype=torch.float32, device=on)
            for ours, theirs in self._moments().items():
                held = state.setdefault(theirs, torch.zeros_like(parameter)).zero_()
                if (given := tensors.get(f"{value.name}.{ours}")) is not None:
                    held.copy_(torch.from_numpy(np.array(given, np.float32)))

    def state(self) -> Tensors:
        found = {
            v.name: as_array(self._network.tensor(v.name)) / np.float32(self._network.scales.get(v.name, 1))
            for v in self._program.parameters + self._program.states
        }
        if self._train:
            for value, held in zip(self._program.parameters, self._states(), strict=True):
                for ours, theirs in self._moments().items():
                    found[f"{value.name}.{ours}"] = as_array(held[theirs])
        return found

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        if not self._train:  # an inference reads no labels, which may have another shape than before
            labels = np.zeros(1, np.int32)
        if slot not in self._slots:
            self._slots[slot] = self._images(inputs), self._classes(labels)
            return
        kept, kept_labels = self._slots[slot]
        if self._device.type == "cuda":
            if slot not in self._uploads:
                self._uploads[slot] = Upload(kept), Upload(kept_labels)
            for upload, array in zip(self._uploads[slot], (inputs, labels), strict=True):
                upload.send(array)
        else:
            kept.copy_(torch.from_numpy(inputs))
            kept_labels.copy_(torch.from_numpy(labels))

    def step(self, slot: int, learning_rate: float, step: int) -> None:
        inputs, labels = self._slots[slot]
        if not self._train:
            with self._autocast():
                self._logits = self._infer(inputs)
            return
        if self._cell.mode == "cudagraph" and self._captured is None:
            self._capture(inputs, labels)
        if self._restarted:
            self._start_at(step)
        self._optimizer.prepare(learning_rate, step)
        self._loss = self._captured.replay(inputs, labels) if self._captured else self._step(inputs, labels)

    def prefill(self, slot: int) -> None:
        with self._autocast():
            self._logits = self._decoding().prefill(self._slots[slot][0])

    def next_token(self, slot: int) -> None:
        with self._autocast():
            self._logits = self._decoding().next_token(self._slots[slot][0])

    def loader(self, samples: Samples) -> DataLoader:
        if self._loader is None:
            self._loader = make_loader(samples, self._program.batch, self._cell, self._order)
        return self._loader

    def close(self) -> None:
        self._loader = None  # its processes end with it

    def take(self, batch: list[Tensor]) -> None:
        inputs, labels = batch
        shape = {"memory_format": self._format} if inputs.dim() == 4 else {}
        waits = {"non_blocking": True} if self._device.type == "cuda" else {}  # the loader pins its batches
        self._slots[0] = inputs.to(self._device, **waits, **shape), labels.to(self._device, **waits)

    def taken(self) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = (tensor.cpu().contiguous().numpy() for tensor in self._slots[0])
        return inputs, labels

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def loss(self) -> float:
        return float("nan") if self._loss is None else self._loss.item()

    def agree(self, value: int) -> int:
        return agreed(self._cell, value)

    def exchange(self) -> Exchange:
        return exchange_of(self._shared, self.step)

    def results(self) -> Tensors:
        return {} if self._logits is None else {"logits": as_array(self._logits)}

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        with torch.inference_mode(), self._autocast():
            return as_array(self._infer(self._images(inputs)))

    def supply_masks(self, masks: Tensors) -> None:
        # torch.compile makes a second graph of the same network, with the masks as operands.
        if masks or self._network.supplied:
            self._captured = None  # likewise
        self._network.supply_masks({name: self._mask(mask) for name, mask in masks.items()})

    def seed_masks(self, seed: int) -> None:
        if self._cell.mode == "cudagraph":
            raise Unsupported("[dropout] nobody has seen that a captured step draws what a step drew")
        torch.manual_seed(seed)

    def draw_masks(self, slot: int) -> Tensors:
        with torch.no_grad(), self._autocast():
            drops = self._drops(*self._slots[slot])
        # An element that was 0 before is 0 after, whether it was kept or not.
        return {
            value.name: np.where(as_array(x) == 0, 255, as_array(y) != 0).astype(np.uint8)
            for value, (x, y) in zip(self._program.masks, drops, strict=True)
        }

    def memory(self) -> dict[str, int]:
        state = [t for held in self._states() for t in held.values() if isinstance(t, Tensor)]
        kept = [*self._network.parameters(), *self._network.buffers(), *state]
        found = {"persistent": sum(tensor.nbytes for tensor in kept)}
        if self._decoder:
            found["caches"] = self._decoder.cache_bytes
            found["persistent"] += found["caches"]
        if self._device.type == "cuda":
            found["framework_peak"] = torch.cuda.max_memory_allocated()
            found["framework_reserved"] = torch.cuda.max_memory_reserved()
        return found

    def settings(self) -> dict[str, str]:
        found = observed(self._cell) | self._memory_share
        lstm = any(node.op == "lstm" for node in self._program.inference.nodes)
        if lstm and self._cell.device == "cuda" and self._cell.precision == "bf16":
            # Whatever the type of the autocast: aten/src/ATen/cudnn/AutocastRNN.cpp.
            found["lstm_type"] = "float16"
        if self._cell.world > 1:
            found["data_parallel"] = f"DistributedDataParallel, {torch.distributed.get_backend()}"
        if self._train:
            found["optimizer"] = "fused" if self._optimizer.fused else "foreach"
        return found

    def _decoding(self) -> Decoder:
        if self._decoder is None:
            raise Unsupported("[decode] the program generates no tokens")
        return self._decoder

    def _step(self, inputs: Tensor, labels: Tensor) -> Tensor:
        with self._autocast():
            loss, _ = self._forward(inputs, labels)
        loss.backward()
        self._optimizer.update()
        return loss

    def _capture(self, inputs: Tensor, labels: Tensor) -> None:
        kept = self.state()
        self._captured = CapturedStep(self._step, inputs, labels)
        self.set_state(kept)

    def _states(self) -> list[dict[str, Tensor]]:
        if not self._train:
            return []
        return [self._optimizer.state(self._network.tensor(value.name)) for value in self._program.parameters]

    def _moments(self) -> dict[str, str]:
        known = MOMENTS[self._program.optimizer.kind]
        return {name: known[name] for name in self._program.optimizer.moments}

    def _start_at(self, step: int) -> None:
        """Set PyTorch's own step count to the first step of the schedule."""
        for state in self._states():
            if isinstance(state.get("step"), Tensor):
                state["step"].fill_(step - 1)
        self._restarted = False

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        return autocast(self._cell)

    def _images(self, inputs: np.ndarray) -> Tensor:
        # Always a copy: the buffer belongs to the batch library.
        if inputs.dtype == np.int32:
            return torch.from_numpy(inputs).to(self._device, copy=True)
        held = torch.empty(inputs.shape, dtype=torch.float32, device=self._device)
        if held.dim() == 4:
            held = held.to(memory_format=self._format)
        return held.copy_(torch.from_numpy(inputs))

    def _mask(self, mask: np.ndarray) -> Tensor:
        held = torch.from_numpy(mask.astype(np.bool_)).to(self._device)
        return held.contiguous(memory_format=self._format) if held.dim() == 4 else held

    def _classes(self, labels: np.ndarray) -> Tensor:
        return torch.from_numpy(labels.astype(np.int64)).to(self._device)


def _limit_memory(cell: Cell, device: torch.device) -> dict[str, str]:
    """Limit PyTorch's allocator to the requested memory, before it allocates any; return the setting."""
    if device.type != "cuda":
        return {}
    total = torch.cuda.get_device_properties(device).total_memory
    share = memory_share(cell, total)
    if share is None:
        return {}
    torch.cuda.set_per_process_memory_fraction(share, torch.cuda.current_device())
    return {"memory_fraction": f"{share:.6g}"}


def _libraries() -> list[Library]:
    built_with = torch.__config__.show()
    versions = {"PyTorch": torch.__version__}
    files = {"libtorch_cpu": "PyTorch", "libgomp": "OpenMP", "libiomp": "OpenMP"}
    found = loaded_libraries(files, versions)
    path = next((library.path for library in found if library.name == "PyTorch"), "")
    for name, pattern in {"oneDNN": r"MKL-DNN v(\S+)", "MKL": r"Math Kernel Library Version (\S+)"}.items():
        if version := re.search(pattern, built_with):
            found.append(Library(name, version[1], path))
    return found
