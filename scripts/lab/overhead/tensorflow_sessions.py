"""Training as in TensorFlow 1's tutorials: placeholders, variables, an optimizer's minimize(), a session."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from clock import Loop
from networks import Network

v1 = tf.compat.v1


def dense(x: tf.Tensor, units: int, name: str) -> tf.Tensor:
    weight = v1.get_variable(f"{name}/kernel", (x.shape[1], units))
    bias = v1.get_variable(f"{name}/bias", (units,), initializer=v1.zeros_initializer())
    return tf.matmul(x, weight) + bias


def convolution(x: tf.Tensor, filters: int, kernel: int, name: str) -> tf.Tensor:
    weight = v1.get_variable(f"{name}/kernel", (kernel, kernel, x.shape[3], filters))
    bias = v1.get_variable(f"{name}/bias", (filters,), initializer=v1.zeros_initializer())
    return tf.nn.relu(tf.nn.conv2d(x, weight, 1, "VALID") + bias)


def flattened(x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(x, (x.shape[0], math.prod(x.shape[1:])))


def mlp(x: tf.Tensor, classes: int) -> tf.Tensor:
    return dense(tf.nn.relu(dense(flattened(x), 128, "hidden")), classes, "logits")


def lenet5(x: tf.Tensor, classes: int) -> tf.Tensor:
    x = tf.nn.avg_pool2d(convolution(x, 6, 5, "conv1"), 2, 2, "VALID")
    x = tf.nn.avg_pool2d(convolution(x, 16, 3, "conv2"), 2, 2, "VALID")
    x = tf.nn.relu(dense(flattened(x), 120, "dense1"))
    return dense(tf.nn.relu(dense(x, 84, "dense2")), classes, "logits")


MODELS = {"mlp": mlp, "lenet5": lenet5}


class Session(Loop):
    def __init__(self, name: str, network: Network, batches: Iterator[tuple[np.ndarray, np.ndarray]]) -> None:
        if name not in MODELS:
            raise ValueError(f"v1-graph has {', '.join(MODELS)}, and not {name}")
        self.batches = batches
        with tf.Graph().as_default() as graph:
            channels, height, width = network.shape
            self.inputs = v1.placeholder(tf.float32, (network.batch, height, width, channels))
            self.labels = v1.placeholder(tf.int32, (network.batch,))
            logits = MODELS[name](self.inputs, network.classes)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(self.labels, logits)
            self.loss = tf.reduce_mean(losses)
            self.train = v1.train.AdamOptimizer(network.learning_rate).minimize(self.loss)
            self.count = sum(int(math.prod(variable.shape)) for variable in v1.trainable_variables())
            start = v1.global_variables_initializer()
        self.session = v1.Session(graph=graph)
        self.session.run(start)

    def run(self, steps: int) -> float:
        loss = float("nan")
        for _ in range(steps):
            inputs, labels = next(self.batches)
            _, loss = self.session.run(
                [self.train, self.loss], feed_dict={self.inputs: inputs, self.labels: labels}
            )
        return float(loss)

    def parameters(self) -> int:
        return self.count

    def settings(self) -> dict[str, str]:
        return {}
