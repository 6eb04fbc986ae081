"""The protocol: commands on descriptor 3, events on 4, one closing event or `error` for each command."""

from __future__ import annotations

import faulthandler
import hashlib
import io
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from . import exam, trainer
from .adapter import Adapter, InferenceAdapter, NetworkAdapter, TrainingAdapter
from .batch import Supply, library_path
from .cell import Cell
from .errors import Unavailable, Unsupported
from .exchange import exchange_times
from .installed import installed_size
from .libraries import with_loaded_libraries
from .program import Program, read_program
from .reset import require_reset
from .samples import Samples
from .tensors import Tensors, read_tensors, write_tensors

PROTOCOL = 1
LONGEST_REASON = 4000
Event = dict[str, Any]
# The out-of-memory messages of PyTorch (on a device and on the CPU), TensorFlow, XLA and MXNet.
STARVED_TYPES = ("OutOfMemoryError", "ResourceExhaustedError")
STARVED_WORDS = ("can't allocate memory", "RESOURCE_EXHAUSTED", "bad_alloc", "Failed to allocate CPU Memory")


class Server:
    """Answers the commands of one cell; `emit` sends an event, `open_supply` opens the batch library."""

    def __init__(
        self,
        adapter_type: type[NetworkAdapter],
        cell: Cell,
        emit: Callable[[Event], None],
        open_supply: Callable[[Path], Supply] = Supply,
    ) -> None:
        self._type = adapter_type
        self._cell = cell
        self._emit = emit
        self._open_supply = open_supply
        self._program: Program | None = None
        self._adapter: Adapter | None = None
        self._supply: Supply | None = None
        self._last_step: int | None = None

    def hello(self) -> Event:
        info = self._type.info(self._cell)
        try:
            batch_library = library_path()
        except OSError:
            batch_library = None  # the first command that needs it says so
        return {
            "event": "hello",
            "protocol": PROTOCOL,
            "backend": info.name,
            "version": info.version,
            "libraries": [vars(library) for library in with_loaded_libraries(info.libraries, batch_library)],
            "settings": info.settings,
        }

    def answer(self, command: dict[str, Any]) -> Event:
        name = command.get("command")
        if name == "compile":
            return self._compile()
        if name == "quit":
            self.close()
            return {"event": "bye"}
        if name not in ("run", "verify", "restart", "exchange", "time_device"):
            raise ValueError(f"unknown command {name!r}")
        if self._adapter is None or self._program is None:
            raise ValueError(f"command {name!r} before compile")
        if name == "run":
            return self._run(self._adapter)
        if name == "restart":
            self._adapter.set_state(read_tensors(self._cell.folder / "parameters.safetensors"))
            self._require_reset(self._adapter, self._program)
            return {"event": "restarted"}
        if name == "exchange":
            return self._exchange(self._adapter)
        if name == "time_device":
            return self._time_device(self._adapter)
        read = self._supply.read if self._supply else {}
        agree = cast(TrainingAdapter, self._adapter).agree if self._cell.world > 1 else None
        exam.sit(self._adapter, self._program, self._last_step, self._cell.folder, agree, read)
        return {"event": "verified"}

    def close(self) -> None:
        if self._supply:
            self._supply.close()
        self.release()

    def release(self) -> None:
        """End the processes that the adapter started: the conductor waits until all have closed the log."""
        if self._adapter:
            self._adapter.close()

    def _compile(self) -> Event:
        self._program = read_program(self._cell.folder / "graph.json")
        parameters = read_tensors(self._cell.folder / "parameters.safetensors")
        begin = time.monotonic()
        self._adapter = self._kind(self._program)(self._program, self._cell)
        self._adapter.set_state(parameters)
        if self._cell.is_timed:
            self._first_step(self._adapter, self._program)
            self._adapter.set_state(parameters)
        seconds = time.monotonic() - begin
        if self._cell.is_timed:
            self._require_reset(self._adapter, self._program)
        return {
            "event": "compiled",
            "seconds": seconds,
            "settings": self._adapter.settings(),
            "memory": self._adapter.memory() | installed_size(),
        }

    def _kind(self, program: Program) -> type[Adapter]:
        kind = self._type.of(program)
        if issubclass(kind, InferenceAdapter) and self._cell.task == "train":
            raise Unsupported("[train] this backend only infers: --task infer")
        return kind

    def _first_step(self, adapter: Adapter, program: Program) -> None:
        """Do the work that frameworks postpone to the first step."""
        if program.packs_inputs:
            inputs = np.zeros((1, program.graph(self._cell.task).input_elements), np.float32)
        else:
            fed = program.inference.with_role("input")[0]
            inputs = np.zeros(fed.shape, np.int32 if fed.dtype == "i32" else np.float32)
        adapter.stage(0, inputs, np.zeros(program.labels, np.int32))
        if self._cell.task == "decode":
            decoder = cast(NetworkAdapter, adapter)
            decoder.prefill(0)
            decoder.next_token(0)
        else:
            adapter.step(0, 0.0, 1)
        adapter.synchronize()
        if self._cell.task == "train" and not program.is_op:
            cast(TrainingAdapter, adapter).loss()

    def _require_reset(self, adapter: Adapter, program: Program) -> None:
        if self._cell.task == "train" and not program.is_op:
            require_reset(cast(TrainingAdapter, adapter), program)

    def _run(self, adapter: Adapter) -> Event:
        self._supply = self._open_supply(self._cell.folder)
        if self._cell.world > 1:
            self._supply.set_agree(cast(TrainingAdapter, adapter).agree)
        op = self._program is not None and self._program.is_op
        tokens = 0 if self._program is None else self._program.generated

        def progress(done: int, planned: int) -> None:
            self._emit({"event": "progress", "done": done, "planned": planned})

        if self._cell.loader == "native" and self._cell.task == "train" and not op:
            samples = Samples(self._cell.folder)
            last_step = trainer.run_native(cast(TrainingAdapter, adapter), self._supply, samples, progress)
        else:
            last_step = trainer.run(adapter, self._supply, self._cell.task, progress, op, tokens)
        self.close()
        self._last_step = last_step
        # A runtime that only infers changes no weights, and may not be able to return them.
        state = {} if op or isinstance(adapter, InferenceAdapter) else cast(TrainingAdapter, adapter).state()
        if self._cell.request.get("hand_over"):
            write_tensors(self._cell.folder / "results/state.safetensors", state)
        return {
            "event": "ran",
            "memory": adapter.memory(),
            "settings": adapter.settings(),
            "operators": [],
            # A run of a single op leaves its results.
            "state_digest": digest(adapter.results() if op else self._compared(state)),
        }

    def _exchange(self, adapter: Adapter) -> Event:
        if self._cell.world == 1:
            return {"event": "exchanged", "reason": "[exchange] there is one rank"}
        try:
            return {"event": "exchanged", **exchange_times(cast(TrainingAdapter, adapter))}
        except Unsupported as error:
            return {"event": "exchanged", "reason": str(error)}

    def _time_device(self, adapter: Adapter) -> Event:
        try:
            return {"event": "device_timed", **vars(adapter.device_times())}
        except Unsupported as error:
            return {"event": "device_timed", "reason": str(error)}
        except Exception as error:
            # It must not cost the fork, whose steps are timed and examined.
            traceback.print_exc()
            reason = f"[time_device] failed: {type(error).__name__}: {error}"
            return {"event": "device_timed", "reason": reason[:LONGEST_REASON]}

    def _compared(self, state: Tensors) -> Tensors:
        """Leave out the running statistics if there are several ranks: each may have its own."""
        if self._cell.world == 1 or self._program is None:
            return state
        own = {value.name for value in self._program.states}
        return {name: tensor for name, tensor in state.items() if name not in own}


def digest(state: Tensors) -> str:
    """Identify a state by the sha256 of its names and bytes, in the order of the names."""
    total = hashlib.sha256()
    for name in sorted(state):
        total.update(name.encode())
        total.update(np.ascontiguousarray(state[name]).tobytes())
    return total.hexdigest()


def error_event(error: BaseException) -> Event:
    """Return the event for an error: its kind decides the row's status."""
    kind = "failed"
    if isinstance(error, Unsupported):
        kind = "unsupported"
    elif isinstance(error, (Unavailable, ImportError)):
        kind = "unavailable"
    text = str(error) or type(error).__name__
    starved = type(error).__name__ in STARVED_TYPES or any(words in text for words in STARVED_WORDS)
    if isinstance(error, MemoryError) or starved:
        kind = "out_of_memory"
    if kind == "failed":
        text = f"{type(error).__name__}: {text}"
    return {"event": "error", "kind": kind, "reason": text[:LONGEST_REASON]}


def serve(make_server: Callable[[Callable[[Event], None]], Server], commands: int, events: int) -> int:
    """Answer commands until `quit` or end of file; return the exit status."""

    def emit(event: Event) -> None:
        data = (json.dumps(event, allow_nan=False) + "\n").encode()
        while data:
            data = data[os.write(events, data) :]

    server: Server | None = None
    with os.fdopen(commands, "rb", closefd=False) as lines:
        try:
            server = make_server(emit)
            emit(server.hello())
            for line in lines:
                event = server.answer(json.loads(line))
                emit(event)
                if event["event"] == "bye":
                    return 0
            server.close()
            return 0
        except BrokenPipeError:
            return 1  # the conductor is gone
        except Exception as error:
            traceback.print_exc()
            emit(error_event(error))
        for line in lines:  # after an error only `quit` may come
            if b'"quit"' in line:
                emit({"event": "bye"})
                break
        if server:
            server.release()
    return 0


# glibc's largest dynamic threshold, less its own header.
ADAPTED_BYTES = (32 << 20) - (64 << 10)


def adapt_allocator() -> None:
    """Free one large array, as a user's program has done that loaded its data.

    glibc then takes blocks of up to this size from its heap, and keeps twice as much free (mallopt(3),
    M_MMAP_THRESHOLD). Without it, a step that frees more than twice its largest array waits for pages of the
    system. Does nothing if a variable such as MALLOC_TRIM_THRESHOLD_ sets the thresholds.
    """
    np.empty(ADAPTED_BYTES, np.uint8)


def worker_main(adapter_type: Callable[[], type[NetworkAdapter]]) -> None:
    """The main of a Python worker. `adapter_type` imports the framework; a failure is `unavailable`."""
    folder = Path(sys.argv[1])
    # Prints where each thread is; the conductor asks for it after a time-out.
    faulthandler.register(signal.SIGUSR1)
    adapt_allocator()
    # Moved away from 3 and 4, and not inherited: a framework's child processes must not hold or write them.
    commands, events = _moved(3), _moved(4)
    # Libraries may print at any time: their output belongs to the log.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)

    def make(emit: Callable[[Event], None]) -> Server:
        cell = Cell(folder, json.loads((folder / "request.json").read_text()))
        adapter = adapter_type()
        # A framework's own handlers turn a crash into an ordinary exit: the conductor must see the signal.
        for fatal in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT):
            signal.signal(fatal, signal.SIG_DFL)
        return Server(adapter, cell, emit)

    status = serve(make, commands, events)
    sys.stdout.flush()
    sys.stderr.flush()
    # Python takes long to unload a framework, and sometimes crashes while it does.
    os._exit(status)


def _moved(descriptor: int) -> int:
    moved = os.dup(descriptor)
    os.set_inheritable(moved, False)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, descriptor, inheritable=False)
    os.close(null)
    return moved
