"""What the commands check and verify write: docs/protocol.md, "What the checks write"."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .adapter import Adapter
from .program import Program
from .tensors import Tensors, read_tensors, write_tensors

MASKS = "masks.safetensors"
UNKNOWN = 255  # in a mask: nobody can tell


@dataclass(frozen=True)
class Feeds:
    """What the conductor laid into check/ of the cell folder."""

    parameters: Tensors
    inputs: np.ndarray  # f32 (B, ...), or i32 tokens
    labels: np.ndarray  # i32 (B)
    schedule: list[list[float]]  # (k, 2): learning rate, step count from 1
    masks: Tensors  # u8 by the mask's name; none without dropout


def read_feeds(cell_folder: Path) -> Feeds:
    folder = cell_folder / "check"
    return Feeds(
        read_tensors(folder / "parameters.safetensors"),
        np.load(folder / "inputs.npy"),
        np.load(folder / "labels.npy"),
        np.load(folder / "schedule.npy").tolist(),
        read_tensors(folder / MASKS) if (folder / MASKS).exists() else {},
    )


def check(adapter: Adapter, program: Program, task: str, cell_folder: Path) -> None:
    """Evaluation, gradients, running statistics, one whole step; the state afterwards is the check's."""
    feeds = read_feeds(cell_folder)
    if program.is_op:
        _write(cell_folder / "results/check.safetensors", _op_answers(adapter, feeds))
        return
    adapter.supply_masks(feeds.masks)
    adapter.set_state(feeds.parameters)
    answers = {"evaluation/logits": adapter.evaluate(feeds.inputs)}
    if task == "train":
        states = {value.name for value in program.states}
        for name, tensor in adapter.gradients(feeds.inputs, feeds.labels).items():
            answers[name if name.startswith("gradient/") else f"training/{name}"] = tensor
        answers |= {f"running/{name}": tensor for name, tensor in adapter.state().items() if name in states}
        adapter.set_state(feeds.parameters)
        adapter.stage(0, feeds.inputs, feeds.labels)
        _step(adapter, feeds, 0)
        adapter.synchronize()
        answers |= {
            f"updated/{name}": tensor for name, tensor in adapter.state().items() if name not in states
        }
    _write(cell_folder / "results/check.safetensors", answers)


def verify(adapter: Adapter, program: Program, task: str, cell_folder: Path) -> None:
    """k steps on what was timed; its state and slot 0 afterwards are the check's."""
    feeds = read_feeds(cell_folder)
    if program.is_op:
        answers = _op_answers(adapter, feeds)
        _write(cell_folder / "results/verify.safetensors", answers | _draws(adapter, feeds))
        return
    adapter.supply_masks(feeds.masks)
    adapter.set_state(feeds.parameters)
    adapter.stage(0, feeds.inputs, feeds.labels)
    if task == "infer":
        _step(adapter, feeds, 0)  # the timed path has run on this batch before it is asked for its logits
        adapter.synchronize()
        _write(cell_folder / "results/verify.safetensors", {"logits": adapter.evaluate(feeds.inputs)})
        return
    losses = []
    for row in range(len(feeds.schedule)):
        _step(adapter, feeds, row)
        losses.append(adapter.loss())
    adapter.synchronize()
    kinds = {value.name: "parameter" for value in program.parameters} | {
        value.name: "running" for value in program.states
    }
    answers = {f"{kinds.get(name, 'moment')}/{name}": tensor for name, tensor in adapter.state().items()}
    _write(
        cell_folder / "results/verify.safetensors",
        {"losses": np.array(losses), **answers, **_draws(adapter, feeds)},
    )


def _draws(adapter: Adapter, feeds: Feeds) -> Tensors:
    """What the program keeps when it draws: in one draw, in the next, alike in both, of how many."""
    if not feeds.masks:
        return {}
    adapter.supply_masks({})
    first, second = adapter.draw_masks(0), adapter.draw_masks(0)
    counts = {}
    for name in feeds.masks:
        told = (first[name] != UNKNOWN) & (second[name] != UNKNOWN)
        a, b = first[name][told] != 0, second[name][told] != 0
        counts[f"draws/{name}"] = np.array([a.sum(), b.sum(), (a == b).sum(), told.sum()], np.float32)
    return counts


def _op_answers(adapter: Adapter, feeds: Feeds) -> Tensors:
    """What one step on the check's operands computes: the same before timing and after."""
    adapter.supply_masks(feeds.masks)
    adapter.set_state(feeds.parameters)
    adapter.stage(0, feeds.inputs, feeds.labels)
    adapter.step(0, 0.0, 1)
    adapter.synchronize()
    answers = {
        name if name.startswith("gradient/") else f"result/{name}": tensor
        for name, tensor in adapter.results().items()
    }
    return answers | {f"running/{name}": tensor for name, tensor in adapter.state().items()}


def _step(adapter: Adapter, feeds: Feeds, row: int) -> None:
    learning_rate, number = feeds.schedule[row]
    adapter.step(0, learning_rate, int(number))


def _write(path: Path, tensors: Tensors) -> None:
    write_tensors(path, {name: np.asarray(tensor, np.float32) for name, tensor in tensors.items()})
