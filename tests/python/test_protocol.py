"""The protocol as the conductor sees it: a worker process with its two descriptors."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_worker import Cell, Loop, Samples, TrainingAdapter
from assay_worker.batch import DONE, EVALUATE, TIMED, Block, Layout
from assay_worker.serve import Server, error_event
from assay_worker.tensors import read_tensors
from conversation import NUMPY, talk
from worker_under_test import LIBRARY, ROOT, numpy_adapter


@pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not there: cmake --build build/dev")
def test_hello_lists_the_shared_objects_with_their_builds(
    make_cell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_BATCH_LIBRARY", str(LIBRARY))
    heard, _ = talk(make_cell(), ["quit"])
    libraries = {library["name"]: library for library in heard[0]["libraries"]}
    for name in ("libassay_batch", "libc"):
        assert Path(libraries[name]["path"]).exists()
        assert libraries[name]["version"].startswith("build-id ")
    assert not any(".cpython-" in library["path"] for library in heard[0]["libraries"])


def test_each_command_gets_its_closing_event(make_cell: Any) -> None:
    folder = make_cell()
    heard, status = talk(folder, ["compile", "verify", "quit"])
    assert [event["event"] for event in heard] == ["hello", "compiled", "verified", "bye"], (
        folder / "log"
    ).read_text()
    assert status == 0
    assert heard[0]["backend"] == "numpy"
    assert heard[1]["seconds"] >= 0


def test_the_exam_writes_what_the_protocol_says(make_cell: Any) -> None:
    folder = make_cell()
    talk(folder, ["compile", "verify"])
    parameters = read_tensors(folder / "parameters.safetensors")
    answers = read_tensors(folder / "results/verify.safetensors")
    wanted = {"evaluation/logits", "first/loss", "last/loss", "last/logits", "extreme/loss"}
    wanted |= {"continuation/steps", "continuation/loss"}
    for name in parameters:
        for run in ("first", "last"):
            wanted |= {f"{run}/parameter/{name}", f"{run}/moment/{name}.m", f"{run}/moment/{name}.v"}
        for run in ("start", "unwaited", "waited"):
            wanted |= {f"continuation/{run}/{name}{moment}" for moment in ("", ".m", ".v")}
    assert set(answers) == wanted
    assert answers["evaluation/logits"].shape == (6, 5)
    assert answers["extreme/loss"] > 20
    # numpy has the same bits, with and without a pause.
    assert answers["continuation/steps"] == 5
    for name in parameters:
        start, unwaited, waited = (
            answers[f"continuation/{run}/{name}"] for run in ("start", "unwaited", "waited")
        )
        assert np.array_equal(unwaited, waited)
        assert not np.array_equal(start, waited)


def test_an_inference_answers_with_the_logits_of_every_slot(make_cell: Any) -> None:
    folder = make_cell(task="infer")
    talk(folder, ["compile", "verify"])
    answers = read_tensors(folder / "results/verify.safetensors")
    assert set(answers) == {"logits"}
    assert answers["logits"].shape == (2, 6, 5)
    assert not np.array_equal(answers["logits"][0], answers["logits"][1])


def test_an_op_without_a_kernel_is_unsupported_and_quit_still_works(make_cell: Any) -> None:
    heard, status = talk(make_cell("normalised"), [{"command": "compile"}, {"command": "quit"}])
    assert [event["event"] for event in heard] == ["hello", "error", "bye"]
    assert heard[1]["kind"] == "unsupported"
    assert "batch_norm" in heard[1]["reason"]
    assert status == 0


def test_garbage_and_disorder_are_answered_with_an_error(make_cell: Any) -> None:
    folder = make_cell()
    for command in ("{not json", "run", "dance"):
        command = command if command.startswith("{") else {"command": command}
        heard, _ = talk(folder, [command, {"command": "quit"}])
        assert [event["event"] for event in heard] == ["hello", "error", "bye"]
        assert heard[1]["kind"] == "failed"


def test_end_of_file_means_quit(make_cell: Any) -> None:
    heard, status = talk(make_cell(), [])
    assert [event["event"] for event in heard] == ["hello"]
    assert status == 0


def test_a_missing_framework_is_unavailable(make_cell: Any, tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    package = str(ROOT / "backends/python")
    worker.write_text(
        f"import sys\nsys.path.insert(0, {package!r})\nfrom assay_worker import worker_main\n"
        "def adapter():\n    import no_such_framework\nworker_main(adapter)\n"
    )
    heard, _ = talk(make_cell(), [{"command": "quit"}], [sys.executable, worker])
    assert [event["event"] for event in heard] == ["error", "bye"]
    assert heard[0]["kind"] == "unavailable"


def test_prints_of_a_framework_never_reach_the_protocol(make_cell: Any, tmp_path: Path) -> None:
    shutil.copytree(NUMPY.parent, tmp_path / "tests" / "noisy")
    (tmp_path / "backends").symlink_to(ROOT / "backends")
    worker = tmp_path / "tests" / "noisy" / "worker.py"
    noise = (
        "import os\nprint('to stdout')\nos.write(1, b'raw\\n')\nos.system('echo from a child; echo x >&4')"
    )
    quiet = "    def synchronize(self) -> None:\n        pass"
    assert quiet in worker.read_text()
    worker.write_text(worker.read_text().replace(quiet, quiet.replace("pass", f"exec({noise!r})")))
    folder = make_cell()
    heard, _ = talk(folder, [{"command": "compile"}, {"command": "quit"}], [sys.executable, worker])
    assert [event["event"] for event in heard] == ["hello", "compiled", "bye"], (folder / "log").read_text()
    assert "from a child" in (folder / "log").read_text()


class FakeSupply:
    """Three training blocks, the last without a loss, an evaluation, and the calls that it got."""

    def __init__(self, _: Path, resident: int = 2) -> None:
        self.layout = Layout(batch=6, classes=5, resident_batches=resident, schedule_rows=7)
        self.schedule = [(0.01, step) for step in range(1, 8)]
        self.inputs, self.labels = np.ones((6, 1, 4, 4), np.float32), np.zeros(6, np.int32)
        self.blocks = [Block(TIMED, 0, 3, 0), Block(TIMED, 0, 4, 3), Block(EVALUATE, 1, 2, 7), Block(DONE)]
        self.losses: list[float] = []
        self.read = self.logits = self.enqueues = 0
        self.closed = False

    def next_block(self) -> Block:
        return self.blocks.pop(0)

    def read_resident(self, slot: int) -> None:
        assert slot < self.layout.resident_batches
        self.read += 1

    def next_batch(self) -> int:
        self.read += 1
        return 6

    def enqueued(self) -> None:
        self.enqueues += 1

    def end_block(self, loss: float) -> None:
        self.losses.append(loss)

    def add_logits(self, logits: np.ndarray) -> None:
        assert logits.shape == (6, 5)
        self.logits += 1

    def progress(self) -> tuple[int, int]:
        return 3, 7

    def close(self) -> None:
        self.closed = True


def serve_a_run(folder: Path, resident: int) -> tuple[FakeSupply, list[tuple[int, float, int]]]:
    steps: list[tuple[int, float, int]] = []
    base: type[TrainingAdapter] = numpy_adapter()

    class Recording(base):  # type: ignore[misc,valid-type]
        def step(self, slot: int, learning_rate: float, step: int) -> None:
            steps.append((slot, learning_rate, step))
            super().step(slot, learning_rate, step)

    supplies: list[FakeSupply] = []

    def open_supply(path: Path) -> FakeSupply:
        supplies.append(FakeSupply(path, resident))
        return supplies[-1]

    cell = Cell(folder, json.loads((folder / "request.json").read_text()))
    server = Server(Recording, cell, lambda _: None, open_supply)  # type: ignore[arg-type]
    assert server.answer({"command": "compile"})["event"] == "compiled"
    del steps[:]  # the step of compile
    assert server.answer({"command": "run"})["event"] == "ran"
    return supplies[0], steps


def test_the_loop_rotates_the_resident_batches_by_the_global_step(make_cell: Any) -> None:
    supply, steps = serve_a_run(make_cell(), resident=2)
    assert [slot for slot, _, _ in steps] == [0, 1, 0, 1, 0, 1, 0]
    assert [step for _, _, step in steps] == [1, 2, 3, 4, 5, 6, 7]
    assert supply.closed
    assert supply.logits == 2
    assert supply.enqueues == 2, "once in each block of steps"
    assert np.isnan(supply.losses).tolist() == [False, False, True]


def test_without_resident_batches_each_step_takes_a_fresh_one(make_cell: Any) -> None:
    supply, steps = serve_a_run(make_cell(), resident=0)
    assert [slot for slot, _, _ in steps] == [0] * 7
    assert supply.read == 7 + 2


def test_a_framework_with_a_loop_of_its_own_is_fed_and_stopped_by_the_clock(make_cell: Any) -> None:
    folder = make_cell()
    steps: list[tuple[float, int]] = []
    last: list[int] = []

    class OwnLoop(numpy_adapter()):  # type: ignore[misc]
        own_loop = True

        def train(self, loop: Loop, samples: Samples | None) -> None:
            assert samples is None
            while (row := loop.begin_step()) is not None:
                steps.append(row)
                if loop.last_of_block:
                    last.append(row[1])
                self.step(row[1] % 2, *row)
                loop.end_step()

    supplies: list[FakeSupply] = []

    def open_supply(path: Path) -> FakeSupply:
        supplies.append(FakeSupply(path))
        return supplies[-1]

    cell = Cell(folder, json.loads((folder / "request.json").read_text()))
    server = Server(OwnLoop, cell, lambda _: None, open_supply)  # type: ignore[arg-type]
    server.answer({"command": "compile"})
    assert server.answer({"command": "run"})["event"] == "ran"
    assert steps == [(0.01, number) for number in range(1, 8)]
    assert last == [3, 7]
    assert np.isnan(supplies[0].losses).tolist() == [False, False, True]
    assert supplies[0].logits == 2


def test_the_step_of_compile_leaves_the_state_as_it_was(make_cell: Any) -> None:
    folder = make_cell()
    cell = Cell(folder, json.loads((folder / "request.json").read_text()))
    server = Server(numpy_adapter(), cell, lambda _: None)
    server.answer({"command": "compile"})
    assert server._adapter
    state = server._adapter.state()
    for name, tensor in read_tensors(folder / "parameters.safetensors").items():
        np.testing.assert_array_equal(state[name], tensor)
        assert not state[f"{name}.m"].any()


def test_moments_that_survive_a_state_without_moments_are_found(make_cell: Any) -> None:
    """The exam sets moments itself, and a replay makes the same mistake."""
    folder = make_cell()
    base: type[TrainingAdapter] = numpy_adapter()

    class Keeping(base):  # type: ignore[misc,valid-type]
        calls_that_reset = 1

        def set_state(self, tensors: Any) -> None:
            self.calls_that_reset -= 1
            kept = {} if self.calls_that_reset >= 0 else self.state()
            super().set_state(kept | dict(tensors))

    class KeepingLater(Keeping):
        calls_that_reset = 2

    cell = Cell(folder, json.loads((folder / "request.json").read_text()))
    with pytest.raises(ValueError, match=r"set_state\(\) got no moments, but .*\.[mv] is not zero"):
        Server(Keeping, cell, lambda _: None).answer({"command": "compile"})
    server = Server(KeepingLater, cell, lambda _: None)
    server.answer({"command": "compile"})
    assert server._adapter
    server._adapter.step(0, 0.1, 1)
    with pytest.raises(ValueError, match="is not zero"):
        server.answer({"command": "restart"})


def test_out_of_memory_differs_from_failure() -> None:
    assert error_event(MemoryError())["kind"] == "out_of_memory"
    for words in ("RESOURCE_EXHAUSTED: Out of memory", "std::bad_alloc", "you can't allocate memory"):
        assert error_event(RuntimeError(words))["kind"] == "out_of_memory"
    assert error_event(ValueError("x"))["kind"] == "failed"
    assert error_event(ValueError("x"))["reason"] == "ValueError: x"
