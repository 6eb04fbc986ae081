"""TensorFlow and Keras as an assay_worker.TrainingAdapter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from assay_worker import (
    Adapter,
    Cell,
    Exchange,
    Info,
    Library,
    Loop,
    Program,
    Samples,
    TrainingAdapter,
    images_to_ours,
    images_to_theirs,
    loaded_libraries,
)
from tensorflow_fit import Arrays, Batch, Endless, Fetch, fit_all, fit_once, generated, loaded, resident
from tensorflow_loader import Loader
from tensorflow_network import Network, loss
from tensorflow_op import TensorflowOp
from tensorflow_optimizer import Rule
from tensorflow_ranks import Ranks
from tensorflow_session import SessionStep
from tensorflow_settings import MODES, configure, observed, refuse_cell

Tensors = dict[str, np.ndarray]
FITS = ("fit", "fit-xla", "fit-autocluster", "fit-eager", "fit-generator")
# Keras decides by the device in the other modes: on a CPU it does not compile with XLA.
COMPILES_WITH_XLA = {"fit-xla": True, "fit-autocluster": False}
DTYPES = {"f32": tf.float32, "i32": tf.int32}


@dataclass(frozen=True)
class Functions:
    """TensorFlow compiles each at its first call."""

    train_step: Callable[..., tf.Tensor]  # as it is written
    step: Callable[..., tf.Tensor]
    infer: Callable[..., tf.Tensor]
    drops: Callable[..., list[tf.Tensor]] | None


class TensorflowAdapter(TrainingAdapter):
    """Modes: `eager`, `graph` (tf.function), `xla` (jit_compile), `autocluster` (XLA where it chooses to),
    `v1-graph` (a session of TensorFlow 1 runs the step), and Keras's own loop: `fit` (a tf.function),
    `fit-xla` (jit_compile), `fit-autocluster`, `fit-eager` (op by op) and `fit-generator` (batches of a
    Python generator).
    """

    @classmethod
    def of(cls, program: Program) -> type[Adapter]:
        return TensorflowOp if program.is_op else cls

    @classmethod
    def info(cls, cell: Cell) -> Info:
        configure(cell)
        versions = {"TensorFlow": tf.__version__}
        found = loaded_libraries({"libtensorflow_cc": "TensorFlow", "_pywrap": "TensorFlow"}, versions)
        return Info("tensorflow", tf.__version__, [*found, Library("Keras", keras.__version__)], observed())

    def __init__(self, program: Program, cell: Cell) -> None:
        refuse_cell(cell, program)
        self._fits = cell.mode in FITS
        self._program, self._cell, self._train = program, cell, cell.task == "train"
        self._compile = MODES[cell.mode]
        self._ranks = Ranks(cell)
        with self._ranks.scope():
            # Each round draws other masks, as it has other parameters.
            self._network = Network(program, cell.task, cell.seed)
            self._named = self._network.variables
            self._trained = {value.name: self._named[value.name] for value in program.parameters}
            self._update = Rule(program.optimizer, self._trained) if self._train else None
        self._slots: dict[int, tuple[tf.Tensor, tf.Tensor]] = {}
        if self._fits:
            self._network.model.compile(
                self._rule.keras,
                loss(program.ignored_label),
                metrics=["accuracy"] if cell.running_accuracy else None,
                run_eagerly=cell.mode == "fit-eager",
                jit_compile=COMPILES_WITH_XLA.get(cell.mode, "auto"),
            )
        self._loss: tf.Tensor | float | None = None
        self._logits: tf.Tensor | None = None  # of the last inference
        self._loader: Loader | None = None
        self._order = np.random.default_rng(cell.seed)  # of the generator
        self._session: SessionStep | None = None  # of v1-graph
        self._accuracy: float | None = None  # that fit counted in the last block
        self._fed_by = ""  # of fit with its own data
        self._restarted = True
        self._drawing = self._functions = self._made()  # the programs that draw their masks
        self._drawing_fit: Any = None  # Keras's own loop of them
        if self._ranks:
            self.seed_masks(cell.seed)  # a variable begins with rank 0's value on every rank

    def _made(self) -> Functions:
        network, variables = self._network, list(self._trained.values())
        loss_of = loss(self._program.ignored_label)
        dropped, ranks = network.dropped, self._ranks

        def train_step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                found = loss_of(labels, network.train(inputs))
            gradients = tape.gradient(found, [variable.value for variable in variables])
            gradients = ranks.mean(gradients)
            self._rule.keras.apply(gradients, variables)
            return found

        on_ranks = ranks.run(train_step)
        return Functions(
            on_ranks,
            self._in_session(train_step) if self._in_v1 else self._compile(on_ranks),
            self._compile(lambda inputs: network.model(inputs, training=False)),
            None
            if dropped is None
            else self._compile(ranks.run(lambda inputs: dropped(inputs, training=True))),
        )

    @property
    def _rule(self) -> Rule:
        if self._update is None:
            raise ValueError(f"[{self._program.name}] nothing is trained")
        return self._update

    @property
    def _moments(self) -> dict[tuple[str, str], Any]:
        return self._update.moments if self._update else {}

    @property
    def _in_v1(self) -> bool:
        return self._cell.mode == "v1-graph"

    def _in_session(self, step: Callable[..., tf.Tensor]) -> SessionStep:
        if self._session:
            self._session.pull()
            self._session.close()
        values = self._program.training.values
        inputs, labels = values["inputs"], values["labels"]
        fed = [
            tf.TensorSpec(images_to_theirs(np.empty(inputs.shape, np.bool_)).shape, DTYPES[inputs.dtype]),
            tf.TensorSpec(labels.shape, DTYPES[labels.dtype]),
        ]
        kept = [*self._network.model.variables, *self._rule.keras.variables]
        self._session = SessionStep(step, fed, [variable.value for variable in kept], self._cell.threads)
        self._session.push()
        return self._session

    @contextmanager
    def _eager_variables(self) -> Iterator[None]:
        """A context that changes variables, such as the generators of dropout, also in a session."""
        if self._session:
            self._session.pull()
        yield
        if self._session:
            self._session.push()

    def set_state(self, tensors: Tensors) -> None:
        with self._eager_variables():  # the generators of dropout are not part of the state: they go on
            for value in self._program.parameters + self._program.states:
                given = tensors.get(value.name)
                if given is None:
                    given = np.full(value.shape, value.initializer == "ones", np.float32)
                self._named[value.name].assign(self._network.layout.to_theirs(value.name, given))
            for (name, moment), variable in self._moments.items():
                given = tensors.get(f"{name}.{moment}")
                variable.assign(
                    np.zeros(variable.shape) if given is None else self._network.layout.to_theirs(name, given)
                )
            if self._update:
                self._update.restart()
        self._restarted = True

    def state(self) -> Tensors:
        if self._session:
            self._session.pull()
        to_ours = self._network.layout.to_ours
        held = {name: np.asarray(variable.numpy(), np.float32) for name, variable in self._named.items()}
        found = {name: to_ours(name, array) for name, array in held.items()}
        for (name, moment), variable in self._moments.items():
            found[f"{name}.{moment}"] = to_ours(name, variable.numpy()) * np.float32(self._rule.scale)
        return found

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        self._slots[slot] = _batch(inputs), tf.constant(labels)

    def step(self, slot: int, learning_rate: float, step: int) -> None:
        inputs, labels = self._slots[slot]
        if not self._train:
            self._logits = self._functions.infer(inputs)
            return
        self._prepare(learning_rate, step)
        if self._fits:
            fit_once(self._network.model, (inputs, labels), self._keep)
        else:
            self._loss = self._functions.step(inputs, labels)

    @property
    def own_loop(self) -> bool:
        return self._fits

    def train(self, loop: Loop, samples: Samples | None) -> None:
        fetch: Fetch | None = None
        data: Arrays | Endless
        batch = self._program.batch
        if samples and self._generates:
            data, self._fed_by = self._forever(samples), "generator"
        elif samples and not self._cell.loader_workers and Arrays.can_hold(samples, batch):
            data, self._fed_by = Arrays.of(samples, batch), "arrays"
        elif samples:
            data, self._fed_by = self._pipeline(samples).repeat(), "tf.data"
        elif count := loop.supply.layout.resident_batches:
            data = resident([self._slots[slot] for slot in range(count)])
        else:
            data, fetch = loaded(loop)
        fit_all(self._network.model, loop, data, fetch, self._prepare, self._keep)

    def loader(self, samples: Samples) -> Iterable[Any]:
        if self._generates:
            made = generated(samples, self._program.batch, self._order)
            return ((tf.constant(inputs), tf.constant(labels)) for inputs, labels in made)
        batches: Iterable[Any] = self._pipeline(samples)
        return batches

    def _pipeline(self, samples: Samples) -> tf.data.Dataset:
        if self._loader is None:
            self._loader = Loader(samples, self._program.batch, self._cell)
        return self._loader.epoch()

    def _forever(self, samples: Samples) -> Iterator[Batch]:
        while True:
            yield from generated(samples, self._program.batch, self._order)

    @property
    def _generates(self) -> bool:
        return self._cell.mode == "fit-generator"

    def take(self, batch: tuple[tf.Tensor, tf.Tensor]) -> None:
        self._slots[0] = batch

    def taken(self) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = self._slots[0]
        return images_to_ours(inputs.numpy()), labels.numpy()

    def close(self) -> None:
        self._loader = None

    def synchronize(self) -> None:
        if self._logits is not None and not self._train:
            # A view: .numpy() would also copy. sync_devices() costs 0.1 ms.
            np.asarray(self._logits)
        elif self._ranks:
            # sync_devices() fails in a cluster. On a CPU a step has ended when its call returns; on a GPU the
            # copy of a variable waits for all that was begun before.
            self.loss()
            if self._cell.device == "cuda":
                min(self._trained.values(), key=lambda variable: math.prod(variable.shape)).numpy()
        else:
            tf.test.experimental.sync_devices()

    def loss(self) -> float:
        # Keras divides the loss of each rank by their number.
        return float("nan") if self._loss is None else float(self._loss) * self._cell.world

    def running_accuracy(self) -> float | None:
        return self._accuracy

    def agree(self, value: int) -> int:
        return self._ranks.agreed(value)

    def exchange(self) -> Exchange:
        if not self._ranks:
            return super().exchange()
        timed = self._functions
        without = replace(timed, step=self._compile(timed.train_step))

        def local_step(slot: int, learning_rate: float, step: int) -> None:
            self._functions, self._ranks.exchanges = without, False
            self.step(slot, learning_rate, step)
            self._functions, self._ranks.exchanges = timed, True

        shapes = [tuple(variable.shape) for variable in self._trained.values()]
        count = sum(math.prod(shape) for shape in shapes)
        return Exchange(4 * count, local_step, self._ranks.bare(shapes, self._compile))

    def results(self) -> Tensors:
        return {} if self._logits is None else {"logits": self._logits.numpy()}

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        if self._session:
            self._session.pull()
        logits: np.ndarray = self._functions.infer(_batch(inputs)).numpy()
        return logits

    def supply_masks(self, masks: Tensors) -> None:
        if not self._network.dropouts:
            return
        if self._functions is self._drawing:
            self._drawing_fit = self._network.model.train_function
        for value, layer in zip(self._program.masks, self._network.dropouts, strict=True):
            layer.supplied = tf.constant(images_to_theirs(masks[value.name])) if masks else None
        model = self._network.model
        if masks or self._in_v1:  # a second program of the same network; there is one session at a time
            self._functions = self._made()
            if self._fits:
                model.make_train_function(force=True)
        else:
            self._functions, model.train_function = self._drawing, self._drawing_fit

    def seed_masks(self, seed: int) -> None:
        with self._eager_variables():
            for number, layer in enumerate(self._network.dropouts):
                layer.begin_again(seed + number)

    def draw_masks(self, slot: int) -> Tensors:
        drops = self._functions.drops
        if drops is None:
            return {}
        with self._eager_variables():
            found = [images_to_ours(tensor.numpy()) for tensor in drops(self._slots[slot][0])]
        # An element that was 0 before is 0 after, whether it was kept or not.
        return {
            value.name: np.where(x == 0, 255, y != 0).astype(np.uint8)
            for value, x, y in zip(self._program.masks, found[::2], found[1::2], strict=True)
        }

    def memory(self) -> dict[str, int]:
        kept = [*self._named.values(), *self._moments.values()]
        sizes = [tf.as_dtype(variable.dtype).size * math.prod(variable.shape) for variable in kept]
        found = {"persistent": sum(sizes)}
        if self._cell.device == "cuda":
            found["framework_peak"] = tf.config.experimental.get_memory_info("GPU:0")["peak"]
        return found

    def _prepare(self, learning_rate: float, step: int) -> None:
        changes = self._session if self._restarted or not self._rule.holds(learning_rate) else None
        if changes:
            changes.pull()
        self._rule.prepare(learning_rate, step, self._restarted)
        if changes:
            changes.push()
        self._restarted = False

    def _keep(self, loss: tf.Tensor | float, accuracy: float | None) -> None:
        self._loss, self._accuracy = loss, accuracy

    def settings(self) -> dict[str, str]:
        if self._fits:
            fed_by = {"fed_by": self._fed_by} if self._fed_by else {}
            return observed() | {"jit_compile": str(self._network.model.jit_compile)} | fed_by
        if self._in_v1:
            return observed()
        timed = self._functions.step if self._train else self._functions.infer
        return observed(timed) | self._ranks.settings()


def _batch(inputs: np.ndarray) -> tf.Tensor:
    # Always a copy: the buffer belongs to the batch library.
    return tf.constant(np.ascontiguousarray(images_to_theirs(inputs)))
