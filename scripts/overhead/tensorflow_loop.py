"""What a user of TensorFlow writes: two Keras networks, Adam, a GradientTape in a tf.function, a loop."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
from keras import layers

Batches = list[tuple[np.ndarray, np.ndarray]]


def mlp(batch: int) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input(batch_shape=(batch, 28, 28, 1)),
            layers.Flatten(),
            layers.Dense(128, "relu"),
            layers.Dense(10),
        ]
    )


def lenet5(batch: int) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input(batch_shape=(batch, 28, 28, 1)),
            *(layers.Conv2D(6, 5, activation="relu"), layers.AveragePooling2D(2)),
            *(layers.Conv2D(16, 3, activation="relu"), layers.AveragePooling2D(2)),
            layers.Flatten(),
            *(layers.Dense(120, "relu"), layers.Dense(84, "relu"), layers.Dense(10)),
        ]
    )


def make(workload: str, mode: str, batches: Batches) -> Callable[[int, int], float]:
    """Give what trains so many steps from a number on, rotating the batches, and gives the last loss."""
    model = {"mlp": mlp, "lenet5": lenet5}[workload](len(batches[0][1]))
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)

    def step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs, training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    if mode != "eager":
        step = tf.function(step, jit_compile=mode == "xla")
    held = [(tf.constant(x.transpose(0, 2, 3, 1)), tf.constant(y)) for x, y in batches]

    def run(first: int, steps: int) -> float:
        for i in range(first, first + steps):
            loss = step(*held[i % len(held)])
        tf.test.experimental.sync_devices()
        return float(loss)

    return run
