"""The worker of onednn, in C++, with a mutant in front of its executable.

The worker library of bridge.cpp calls its executable by the name of a method. Here such a call is one of a
mutant, in front of an adapter whose methods call the executable of onednn in the same way.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from assay_worker import Cell
from assay_worker.program import DTYPES, Program, read_program
from mutant import Tensors
from mutant_worker import mutated

TYPES = ("f64", "f32", "bf16", "i32", "u8")  # by their numbers in C++


class Tensor(ctypes.Structure):
    _fields_: ClassVar = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int64),
        ("rank", ctypes.c_int64),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("data", ctypes.c_void_p),
    ]


class Call(ctypes.Structure):
    """The arguments and results of all methods; each uses some."""

    lent: ClassVar[Any]
    _fields_: ClassVar = [
        ("text", ctypes.c_char_p),
        ("slot", ctypes.c_int64),
        ("number", ctypes.c_int64),
        ("value", ctypes.c_double),
        ("inputs", ctypes.c_void_p),
        ("labels", ctypes.c_void_p),
        ("logits", ctypes.c_void_p),
        ("tensors", ctypes.POINTER(Tensor)),
        ("count", ctypes.c_int64),
    ]

    def lend(self, tensors: Tensors) -> None:
        """Let the other side read these tensors, as long as it is called or until the next call."""
        arrays = [np.ascontiguousarray(array).reshape(np.shape(array)) for array in tensors.values()]
        shapes = [(ctypes.c_int64 * array.ndim)(*array.shape) for array in arrays]
        numbers = [TYPES.index(name) for a in arrays for name, dtype in DTYPES.items() if a.dtype == dtype]
        rows = zip(tensors, numbers, arrays, shapes, strict=True)
        self.count = len(arrays)
        self.tensors = (Tensor * len(arrays))(
            *(Tensor(name.encode(), number, a.ndim, shape, a.ctypes.data) for name, number, a, shape in rows)
        )
        Call.lent = arrays, shapes, self.tensors

    def taken(self) -> Tensors:
        """Return copies of the tensors of the other side."""
        found = {}
        for tensor in self.tensors[: self.count]:
            shape = tuple(tensor.shape[: tensor.rank])
            found[tensor.name.decode()] = array_at(tensor.data, DTYPES[TYPES[tensor.dtype]], shape).copy()
        return found


def array_at(place: int | None, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return a view of memory of the other side; zeros if it has none."""
    if place is None:
        return np.zeros(shape, dtype)
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(place), dtype).reshape(shape)


class OnednnAdapter:
    """The executable of onednn."""

    library: ClassVar[ctypes.CDLL]
    document: dict[str, Any]  # of the program, by the mutant

    @classmethod
    def of(cls, program: Program) -> type:
        return cls

    def __init__(self, program: Program, cell: Cell) -> None:
        self._program = program
        self._supplied = False
        self._first_masks: Tensors | None = None
        self._call("compile", text=json.dumps(self.document).encode())

    def _call(self, method: str, tensors: Tensors | None = None, **given: Any) -> Call:
        call = Call(**given)
        if tensors is not None:
            call.lend(tensors)
        if not self.library.assay_call(method.encode(), ctypes.byref(call)):
            raise RuntimeError(self.library.assay_error().decode())
        return call

    def set_state(self, tensors: Tensors) -> None:
        self._call("set_state", tensors)

    def state(self) -> Tensors:
        return self._call("state").taken()

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        inputs, labels = np.ascontiguousarray(inputs), np.ascontiguousarray(labels)
        self._call("stage", slot=slot, inputs=inputs.ctypes.data, labels=labels.ctypes.data)

    def step(self, slot: int, rate: float, number: int) -> None:
        self._call("step", slot=slot, value=rate, number=number)
        if self._first_masks is None:
            self._first_masks = self._call("masks").taken()

    def synchronize(self) -> None:
        self._call("synchronize")

    def loss(self) -> float:
        return float(self._call("loss").value)

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        graph = self._program.inference
        logits = np.empty(graph.values[graph.outputs["logits"]].shape, np.float32)
        inputs = np.ascontiguousarray(inputs)
        self._call("evaluate", inputs=inputs.ctypes.data, logits=logits.ctypes.data)
        return logits

    def results(self) -> Tensors:
        return self._call("results").taken()

    def supply_masks(self, masks: Tensors) -> None:
        self._supplied = bool(masks)
        self._call("supply_masks", masks)

    def draw_masks(self, slot: int) -> Tensors:
        return self._call("masks").taken()

    def seed_masks(self, seed: int) -> None:
        """Let the next step draw what the first one drew: there is one seed."""
        if not self._supplied:
            self._call("supply_masks", self._first_masks or {})

    def memory(self) -> dict[str, int]:
        return {name: int(size) for name, size in self._call("memory").taken().items()}

    def agree(self, value: int) -> int:
        return int(self._call("agree", number=value).number)

    def of_rank_0(self, array: np.ndarray) -> np.ndarray:
        values = array.astype(np.float32) * np.float32(self.rank == 0)  # type: ignore[attr-defined]
        self._call("sum", inputs=values.ctypes.data, number=values.size)
        return values.astype(array.dtype)


def answer(adapter: Any, program: Program, task: str, method: str, call: Call) -> None:
    """Make the call of the worker library one of the adapter's."""

    def inputs() -> np.ndarray:
        graph = program.graph(task)
        if program.is_op:
            return array_at(call.inputs, np.float32, (1, graph.input_elements))
        fed = graph.values["inputs"]
        return array_at(call.inputs, DTYPES[fed.dtype], fed.shape)

    if method in ("set_state", "supply_masks"):
        getattr(adapter, method)(call.taken())
    elif method in ("state", "results"):
        call.lend(getattr(adapter, method)())
    elif method == "masks":
        call.lend(adapter.draw_masks(0))
    elif method == "memory":
        call.lend({name: np.float64(size) for name, size in adapter.memory().items()})
    elif method == "stage":
        adapter.stage(call.slot, inputs(), array_at(call.labels, np.int32, program.labels))
    elif method == "step":
        adapter.step(call.slot, call.value, call.number)
    elif method == "evaluate":
        logits = adapter.evaluate(inputs())
        array_at(call.logits, np.float32, logits.shape)[:] = logits
    elif method == "loss":
        call.value = adapter.loss()
    elif method == "agree":
        call.number = adapter.agree(call.number)
    else:
        adapter.synchronize()


def serve(folder: Path, kind: type, name: str) -> int:
    """Run the worker of the build that has this folder of onednn; `name`: a mistake of its communicator."""
    faulthandler.register(signal.SIGUSR1)  # a default action would end it
    build = folder.resolve().parents[1]
    library = ctypes.CDLL(str(build / "tests/mutants/onednn_bridge.so"))
    library.assay_error.restype = ctypes.c_char_p
    OnednnAdapter.library = library
    cell = Cell(Path(sys.argv[1]), json.loads((Path(sys.argv[1]) / "request.json").read_text()))
    program = read_program(cell.folder / "graph.json")
    made: list[Any] = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(Call))
    def called(method: bytes, call: Any) -> int:
        try:
            if method == b"compile":
                made[:] = [mutated(kind, OnednnAdapter).of(program)(program, cell)]
            else:
                answer(made[0], program, cell.task, method.decode(), call.contents)
        except Exception as error:
            traceback.print_exc()
            library.assay_fail(f"{type(error).__name__}: {error}".encode())
            return 0
        return 1

    module = folder.resolve().parent / "collectives/assay_mpi.so"
    return int(library.assay_serve(str(cell.folder).encode(), str(module).encode(), name.encode(), called))
