"""Loops as users of TensorFlow write them: a Keras model, a GradientTape in a tf.function, a loop."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import cycle, islice

if {"autocluster", "fit-autocluster"} & {*sys.argv}:  # read on import
    os.environ.setdefault("TF_XLA_FLAGS", "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit")

import keras
import numpy as np
import tensorflow as tf
from clock import Batch, Framework, Loop, main
from networks import Network
from tensorflow_fits import FITS, Fit
from tensorflow_networks import build
from tensorflow_operators import operator
from tensorflow_sessions import Session

COMPILE = {
    "eager": lambda function: function,
    "graph": tf.function,
    "autocluster": tf.function,
    "xla": tf.function(jit_compile=True),
}


def optimizer_of(network: Network) -> keras.optimizers.Optimizer:
    if network.optimizer == "sgd":
        return keras.optimizers.SGD(network.learning_rate, network.momentum)
    if network.optimizer == "rmsprop":
        return keras.optimizers.RMSprop(network.learning_rate)
    if network.optimizer == "adamw":
        adamw = keras.optimizers.AdamW(
            network.learning_rate,
            network.weight_decay,
            beta_2=network.beta2,
            global_clipnorm=network.clip_norm or None,
        )
        adamw.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
        return adamw
    return keras.optimizers.Adam(network.learning_rate)


def trained(model: keras.Model) -> int:
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)


def images_last(inputs: np.ndarray) -> np.ndarray:
    return inputs.transpose(0, 2, 3, 1) if inputs.ndim == 4 else inputs


class TensorflowLoop(Loop):
    def __init__(self, model: keras.Model, batches: Iterator[tuple[tf.Tensor, tf.Tensor]]) -> None:
        self.model = model
        self.batches = batches

    def parameters(self) -> int:
        return trained(self.model)

    def settings(self) -> dict[str, str]:
        # 0 is TensorFlow's default: the number of processors.
        chosen = tf.config.threading
        threads = chosen.get_intra_op_parallelism_threads() or os.cpu_count()
        between = chosen.get_inter_op_parallelism_threads() or os.cpu_count()
        return {"threads": str(threads), "interop_threads": str(between)}


class Training(TensorflowLoop):
    def __init__(
        self,
        model: keras.Model,
        network: Network,
        mode: str,
        batches: Iterator[tuple[tf.Tensor, tf.Tensor]],
    ) -> None:
        super().__init__(model, batches)
        loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = optimizer_of(network)

        def train_step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                logits = tf.cast(
                    model(inputs, training=True), tf.float32
                )  # as Keras's guide to mixed precision
                loss = loss_fn(labels, logits)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        self.train_step = COMPILE[mode](train_step)

    def run(self, steps: int) -> float:
        for inputs, labels in islice(self.batches, steps):
            loss = self.train_step(inputs, labels)
        return float(loss)


class Inference(TensorflowLoop):
    def __init__(self, model: keras.Model, mode: str, batches: Iterator[tuple[tf.Tensor, tf.Tensor]]) -> None:
        super().__init__(model, batches)
        self.predict = COMPILE[mode](lambda inputs: model(inputs, training=False))

    def run(self, steps: int) -> float:
        for inputs, _ in islice(self.batches, steps):
            logits = self.predict(inputs).numpy()
        return float(logits.sum())


def generated(images: np.ndarray, labels: np.ndarray, batch: int) -> Iterator[Batch]:
    """A generator as users write it for fit: it makes each batch sample by sample in Python."""
    random = np.random.default_rng(1)
    while True:
        order = random.permutation(len(images))
        for begin in range(0, len(images) - batch + 1, batch):
            rows = order[begin : begin + batch]
            made = [images[row][..., np.newaxis].astype(np.float32) / 255 for row in rows]
            yield np.stack(made), labels[rows]


class TensorFlow(Framework):
    version = tf.__version__
    modes = (*COMPILE, *FITS, "v1-graph", "function", "tensordot", "layer")
    precisions = ("fp32", "bf16")

    def resident(self, name: str, network: Network, mode: str, task: str, batches: list[Batch]) -> Loop:
        keras.mixed_precision.set_global_policy("mixed_bfloat16" if self.precision == "bf16" else "float32")
        if mode == "v1-graph":
            return Session(name, network, cycle([(images_last(x), y) for x, y in batches]))
        model = build(name, network)
        if mode in FITS:
            images, labels = (np.stack(parts) for parts in zip(*batches, strict=True))
            stacked = np.stack([images_last(x) for x in images]), labels
            data = tf.data.Dataset.from_tensor_slices(stacked).repeat().prefetch(tf.data.AUTOTUNE)
            return Fit(model, optimizer_of(network), mode, data)
        held = cycle([(tf.constant(images_last(x)), tf.constant(y)) for x, y in batches])
        if task == "infer":
            return Inference(model, mode, held)
        return Training(model, network, mode, held)

    def loading(self, name: str, network: Network, mode: str, images: np.ndarray, labels: np.ndarray) -> Loop:
        if mode == "fit-generator":
            made = generated(images, labels, network.batch)
            return Fit(build(name, network), optimizer_of(network), mode, made)

        def scaled(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return tf.cast(image[..., tf.newaxis], tf.float32) / 255, label

        data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images))
        data = data.batch(network.batch, drop_remainder=True).map(scaled, tf.data.AUTOTUNE)
        data = data.prefetch(tf.data.AUTOTUNE)

        if mode in FITS:
            return Fit(build(name, network), optimizer_of(network), mode, data.repeat())

        def batches() -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
            while True:
                yield from data

        if mode == "v1-graph":
            fed = ((inputs.numpy(), of.numpy()) for inputs, of in batches())
            return Session(name, network, fed)
        return Training(build(name, network), network, mode, batches())

    def operator(self, name: str, mode: str) -> Loop:
        return operator(name, mode)

    def count(self, name: str, network: Network) -> int:
        return trained(build(name, network))


if __name__ == "__main__":
    main(TensorFlow())
