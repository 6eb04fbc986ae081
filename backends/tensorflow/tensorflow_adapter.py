"""TensorFlow and Keras behind the contract of assay_worker.Adapter."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from assay_worker import Adapter, Cell, Info, Library, Program, Unsupported, loaded_libraries
from tensorflow_network import Network, images_to_theirs
from tensorflow_optimizer import Rule

Tensors = dict[str, np.ndarray]

# How a function is run; `autocluster` was switched on before TensorFlow was imported.
MODES: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "eager": lambda function: function,
    "graph": tf.function,
    "xla": lambda function: tf.function(function, jit_compile=True),
    "autocluster": tf.function,
}


class TensorflowAdapter(Adapter):
    """Modes: `eager`, `graph` (tf.function), `xla` (jit_compile), `autocluster` (XLA where it sees fit)."""

    @classmethod
    def info(cls, cell: Cell) -> Info:
        tf.config.threading.set_intra_op_parallelism_threads(cell.threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        keras.mixed_precision.set_global_policy("mixed_bfloat16" if cell.precision == "bf16" else "float32")
        versions = {"TensorFlow": tf.__version__}
        found = loaded_libraries({"libtensorflow_cc": "TensorFlow", "_pywrap": "TensorFlow"}, versions)
        return Info("tensorflow", tf.__version__, [*found, Library("Keras", keras.__version__)], _observed())

    def __init__(self, program: Program, cell: Cell, check: bool) -> None:
        if cell.mode not in MODES:
            raise Unsupported(f"mode {cell.mode!r}: {', '.join(MODES)} are known")
        self._program, self._train = program, cell.task == "train"
        self._network = Network(program)
        self._named = self._network.variables
        trained = {value.name: self._named[value.name] for value in program.parameters}
        self._rule = Rule(program.optimizer, trained)
        self._slots: dict[int, tuple[tf.Tensor, tf.Tensor]] = {}
        self._loss: tf.Tensor | None = None
        self._restarted = True

        model, optimizer, variables = self._network.model, self._rule.keras, list(trained.values())
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        decays = [program.optimizer.decay_of(variable.shape) for variable in variables]

        def gradients_of(
            inputs: tf.Tensor, labels: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
            with tf.GradientTape() as tape:
                logits = model(inputs, training=True)
                loss = loss_of(labels, logits)
            found = tape.gradient(loss, [variable.value for variable in variables])
            # An embedding's is a tf.IndexedSlices; written out, as the contract's dense gradient is.
            return loss, logits, [tf.convert_to_tensor(gradient) for gradient in found]

        def train_step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            loss, _, gradients = gradients_of(inputs, labels)
            if any(decays):
                parts = zip(gradients, variables, decays, strict=True)
                gradients = [g + decay * variable.value if decay else g for g, variable, decay in parts]
            optimizer.apply(gradients, variables)
            return loss

        compiled = MODES[cell.mode]
        self._step = compiled(train_step)
        self._infer = compiled(lambda inputs: model(inputs, training=False))
        self._gradients = compiled(gradients_of)

    def set_state(self, tensors: Tensors) -> None:
        for value in self._program.parameters + self._program.states:
            given = tensors.get(value.name)
            if given is None:
                given = np.full(value.shape, value.initializer == "ones", np.float32)
            self._named[value.name].assign(self._network.to_theirs(value.name, given))
        for (name, moment), variable in self._rule.moments.items():
            given = tensors.get(f"{name}.{moment}")
            variable.assign(
                np.zeros(variable.shape) if given is None else self._network.to_theirs(name, given)
            )
        self._rule.restart()
        self._restarted = True

    def state(self) -> Tensors:
        to_ours, scale = self._network.to_ours, np.float32(self._rule.scale)
        found = {name: to_ours(name, variable.numpy()) for name, variable in self._named.items()}
        for (name, moment), variable in self._rule.moments.items():
            found[f"{name}.{moment}"] = to_ours(name, variable.numpy()) * scale
        return found

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        self._slots[slot] = _batch(inputs), tf.constant(labels)

    def step(self, slot: int, learning_rate: float, step: int) -> None:
        inputs, labels = self._slots[slot]
        if not self._train:
            self._infer(inputs)
            return
        self._rule.prepare(learning_rate, step, self._restarted)
        self._restarted = False
        self._loss = self._step(inputs, labels)

    def synchronize(self) -> None:
        tf.test.experimental.sync_devices()

    def loss(self) -> float:
        return float("nan") if self._loss is None else float(self._loss)

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        return self._infer(_batch(inputs)).numpy()

    def gradients(self, inputs: np.ndarray, labels: np.ndarray) -> Tensors:
        loss, logits, gradients = self._gradients(_batch(inputs), tf.constant(labels))
        found = {"loss": loss.numpy(), "logits": logits.numpy()}
        for value, gradient in zip(self._program.parameters, gradients, strict=True):
            found[f"gradient/{value.name}"] = self._network.to_ours(value.name, gradient.numpy())
        return found

    def memory(self) -> dict[str, int]:
        kept = [*self._named.values(), *self._rule.moments.values()]
        return {"persistent": sum(4 * int(np.prod(variable.shape)) for variable in kept)}

    def settings(self) -> dict[str, str]:
        found = _observed()
        function = self._step if self._train else self._infer
        if traced := getattr(function, "experimental_get_tracing_count", None):
            # More than one means that it was traced and compiled anew.
            found["compiled_graphs"] = str(traced())
        return found


def _batch(inputs: np.ndarray) -> tf.Tensor:
    # A copy, always: the buffer belongs to the batch library.
    return tf.constant(np.ascontiguousarray(images_to_theirs(inputs)))


def _observed() -> dict[str, str]:
    return {
        "threads": str(tf.config.threading.get_intra_op_parallelism_threads()),
        "interop_threads": str(tf.config.threading.get_inter_op_parallelism_threads()),
        "auto_jit": str(tf.config.optimizer.get_jit() or "off"),
        "policy": keras.mixed_precision.dtype_policy().name,
        "python": platform.python_version(),
    }
