"""The clock and the options of every loop: blocks of steps; a block ends when the loss is read.

    <framework>_loop.py --network NAME|op/NAME --mode MODE [--task train|infer] [--loader resident|native]
                        [--batch N] [--seconds S] [--block-seconds S] [--warm-up-steps N]
                        [--device cpu|cuda] [--precision fp32|tf32|bf16] [--model FILE.onnx]
    <framework>_loop.py --count

It prints `loop: compiled` after its first step, and `loop: warm ` and the seconds of a step before the first
timed block. The timed blocks go on for --seconds, or until SIGTERM. The last line is `loop: ` and a JSON
object. --count prints the number of trained parameters of each network instead of running one.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from networks import NETWORKS, Network
from operators import OPERATORS

WARM_UP_SECONDS = 0.5
LONG_ENOUGH = 0.05  # seconds of a block for which reading the loss does not matter
RESIDENT_BATCHES = 8
WORDS_OF_A_CLASS = 8  # at the end of each text, which an LSTM learns first; at the start of a padded one
SAMPLES = 48000  # of the data set that a loader reads

Batch = tuple[np.ndarray, np.ndarray]


class Loop(ABC):
    """A training or inference loop as a user of the framework writes it."""

    @abstractmethod
    def run(self, steps: int) -> float:
        """Run that many steps; return the last step's loss, or in inference the sum of its logits."""

    @abstractmethod
    def parameters(self) -> int:
        """Return the number of trained parameters."""

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Return the observed settings that the framework chose."""


class Framework(ABC):
    """The networks and loops of one framework: each <framework>_loop.py has one."""

    version: str
    modes: tuple[str, ...]
    devices: tuple[str, ...] = ("cpu",)
    precisions: tuple[str, ...] = ("fp32",)
    device = "cpu"
    precision = "fp32"

    @abstractmethod
    def resident(self, name: str, network: Network, mode: str, task: str, batches: list[Batch]) -> Loop:
        """Cycle through batches in memory."""

    @abstractmethod
    def loading(self, name: str, network: Network, mode: str, images: np.ndarray, labels: np.ndarray) -> Loop:
        """Train through the framework's own loader on bytes (N, H, W) and their labels."""

    @abstractmethod
    def operator(self, name: str, mode: str) -> Loop:
        """Call one operator again and again; run() returns the sum of its result."""

    @abstractmethod
    def count(self, name: str, network: Network) -> int:
        """Return the number of parameters that the network trains."""


class Runtime(Framework):
    """It infers the network of a file. `loop` gets the file and the batches."""

    model: Path

    def __init__(self, version: str, mode: str, loop: Callable[[Path, list[Batch]], Loop]) -> None:
        self.version, self.modes, self._loop = version, (mode,), loop

    def resident(self, name: str, network: Network, mode: str, task: str, batches: list[Batch]) -> Loop:
        return self._loop(self.model, batches)

    def loading(self, name: str, network: Network, mode: str, images: np.ndarray, labels: np.ndarray) -> Loop:
        raise NotImplementedError("a runtime does not train")

    def operator(self, name: str, mode: str) -> Loop:
        raise NotImplementedError("the file has a network")

    def count(self, name: str, network: Network) -> int:
        raise NotImplementedError("the file knows")


class Calls(Loop):
    """One operator, which has no parameters."""

    def __init__(self, call: Callable[[], Any], total: Callable[[Any], float]) -> None:
        """total: wait for a result, and add up its elements."""
        self.call, self.total = call, total

    def run(self, steps: int) -> float:
        call = self.call
        for _ in range(steps):
            result = call()
        return self.total(result)

    def parameters(self) -> int:
        return 0

    def settings(self) -> dict[str, str]:
        return {}


class Stop:
    """Becomes true when SIGTERM comes."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True


def images_of(network: Network, count: int, random: np.random.Generator) -> Batch:
    """Make a set that a network can learn: a pattern or words for each class, under noise."""
    if network.next_token:
        return texts_that_count(network, count, random)
    labels = random.integers(0, network.classes, count).astype(np.int32)
    if network.vocabulary:
        first = 1 if network.padded else 0
        texts = random.integers(first, network.vocabulary, (count, *network.shape)).astype(np.int32)
        if network.padded:
            texts[:, :WORDS_OF_A_CLASS] = 1 + labels[:, None]
            lengths = random.integers(network.shape[0] // 4, network.shape[0] + 1, (count, 1))
            texts[np.arange(network.shape[0]) >= lengths] = 0
        else:
            texts[:, -WORDS_OF_A_CLASS:] = labels[:, None]
        return texts, labels
    patterns = random.standard_normal((min(network.classes, 10), *network.shape), np.float32)
    noise = random.standard_normal((count, *network.shape), np.float32)
    return patterns[labels % len(patterns)] + np.float32(0.5) * noise, labels


def texts_that_count(network: Network, count: int, random: np.random.Generator) -> Batch:
    """Make texts in which each token is the one before plus 1, and the next token of each position."""
    first = random.integers(0, network.vocabulary, (count, 1))
    texts = ((first + np.arange(network.shape[0] + 1)) % network.vocabulary).astype(np.int32)
    return texts[:, :-1], texts[:, 1:]


def resident_batches(network: Network) -> list[Batch]:
    random = np.random.default_rng(1)
    inputs, labels = images_of(network, RESIDENT_BATCHES * network.batch, random)
    cuts = [slice(i * network.batch, (i + 1) * network.batch) for i in range(RESIDENT_BATCHES)]
    return [(inputs[cut], labels[cut]) for cut in cuts]


def data_set(network: Network) -> Batch:
    """Return bytes (N, H, W) and labels, as in the files of Fashion-MNIST."""
    images, labels = images_of(network, SAMPLES, np.random.default_rng(1))
    return np.clip(128 + 100 * images[:, 0], 0, 255).astype(np.uint8), labels


def measure(loop: Loop, seconds: float, block_seconds: float, warm_up_steps: int) -> dict[str, Any]:
    """Warm up, then time blocks until the seconds have passed or SIGTERM comes."""
    stop = Stop()
    first_loss = loop.run(1)  # it compiles here
    print("loop: compiled", flush=True)
    warm_up_begin, warm, steps = time.monotonic(), 0, 1
    while warm < warm_up_steps or time.monotonic() - warm_up_begin < WARM_UP_SECONDS:
        begin = time.monotonic()
        loop.run(steps)
        took = time.monotonic() - begin
        warm, of_a_step = warm + steps, took / steps
        if took < LONG_ENOUGH:
            steps *= 2
    print(f"loop: warm {of_a_step:.9g}", flush=True)
    steps = max(1, round(block_seconds / of_a_step))
    blocks: list[tuple[int, int, int]] = []  # begin and end in ns of CLOCK_MONOTONIC, and steps
    losses = []
    end = time.monotonic() + seconds
    while not blocks or not (stop.asked or time.monotonic() >= end):
        begin_ns = time.monotonic_ns()
        losses.append(loop.run(steps))
        blocks.append((begin_ns, time.monotonic_ns(), steps))
    return {
        "step_seconds": median(1e-9 * (end_ns - begin_ns) / n for begin_ns, end_ns, n in blocks),
        "blocks": blocks,
        "steps": 1 + warm + len(blocks) * steps,
        "losses": [first_loss, *losses],
    }


def reject_losses(losses: Sequence[float], steps: int, network: Network, task: str) -> None:
    """Raise if the loop cannot have computed correctly."""
    if not all(math.isfinite(loss) for loss in losses):
        raise ArithmeticError(f"the loss is not finite: {losses}")
    if task != "train" or network.learns_within is None or steps < network.learns_within:
        return
    if median(losses[1:]) >= losses[0]:  # not the last loss: a single step may be bad, as happens in an LSTM
        raise ArithmeticError(f"the loss does not fall: {losses}; the network does not train")


def measure_operator(framework: Framework, given: argparse.Namespace) -> dict[str, Any]:
    loop = framework.operator(given.network, given.mode)
    found = measure(loop, given.seconds, given.block_seconds, max(1, given.warm_up_steps))
    batch, *shape = OPERATORS[given.network].shapes[0]
    facts = {"version": framework.version, "batch": batch, "shape": shape, "parameters": 0, "settings": {}}
    return found | facts


def main(framework: Framework) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", choices=[*NETWORKS, *OPERATORS])
    parser.add_argument("--mode", choices=framework.modes)
    parser.add_argument("--task", choices=("train", "infer"), default="train")
    parser.add_argument("--loader", choices=("resident", "native"), default="resident")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--device", choices=framework.devices, default="cpu")
    parser.add_argument("--precision", choices=framework.precisions, default="fp32")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--block-seconds", type=float, default=0.1)
    parser.add_argument("--warm-up-steps", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, help="then the loss need not fall")
    parser.add_argument("--model", type=Path, help="of a runtime: what write_model.py wrote")
    parser.add_argument("--count", action="store_true")
    given = parser.parse_args()
    if given.count:
        counts = {name: framework.count(name, network) for name, network in NETWORKS.items()}
        print("loop: " + json.dumps(counts), flush=True)
        return
    if given.network is None or given.mode is None:
        parser.error("--network and --mode are needed")
    if given.network in OPERATORS:
        found = measure_operator(framework, given)
        print("loop: " + json.dumps(found), flush=True)
        return
    network = NETWORKS[given.network]
    framework.device, framework.precision = given.device, given.precision
    if isinstance(framework, Runtime):
        if given.model is None or given.task != "infer":
            parser.error("a runtime needs --model and --task infer")
        framework.model = given.model
    if given.batch:
        # It is not known how soon a small batch learns.
        network = replace(network, batch=given.batch, learns_within=None)
    if given.learning_rate is not None:
        network = replace(network, learning_rate=given.learning_rate, learns_within=None)
    if given.loader == "native":
        loop = framework.loading(given.network, network, given.mode, *data_set(network))
    else:
        batches = resident_batches(network)
        loop = framework.resident(given.network, network, given.mode, given.task, batches)
    found = measure(loop, given.seconds, given.block_seconds, max(1, given.warm_up_steps))
    reject_losses(found["losses"], found["steps"], network, given.task)
    facts = {
        "version": framework.version,
        "batch": network.batch,
        "shape": list(network.shape),
        "classes": network.classes,
        "parameters": loop.parameters(),
        "settings": loop.settings(),
    }
    print("loop: " + json.dumps(found | facts), flush=True)
