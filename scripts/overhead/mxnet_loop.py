"""What a user of Gluon writes: two networks, a Trainer with Adam, a loop."""

from __future__ import annotations

from collections.abc import Callable

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

Batches = list[tuple[np.ndarray, np.ndarray]]


def mlp() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Dense(128, "relu", in_units=784), nn.Dense(10, in_units=128))
    return net


def lenet5() -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu", in_channels=1), nn.AvgPool2D())
    net.add(nn.Conv2D(16, 3, activation="relu", in_channels=6), nn.AvgPool2D())
    net.add(
        nn.Dense(120, "relu", in_units=400), nn.Dense(84, "relu", in_units=120), nn.Dense(10, in_units=84)
    )
    return net


def make(workload: str, mode: str, batches: Batches) -> Callable[[int, int], float]:
    """Give what trains so many steps from a number on, rotating the batches, and gives the last loss."""
    net = {"mlp": mlp, "lenet5": lenet5}[workload]()
    net.initialize(mx.init.Xavier())
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    if mode == "hybridize":
        net.hybridize(static_alloc=True, static_shape=True)
        loss_of.hybridize(static_alloc=True, static_shape=True)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 1e-3}, kvstore=None)
    held = [(nd.array(x), nd.array(y)) for x, y in batches]
    size = len(batches[0][1])

    def run(first: int, steps: int) -> float:
        for i in range(first, first + steps):
            inputs, labels = held[i % len(held)]
            with autograd.record():
                losses = loss_of(net(inputs), labels)
            losses.backward()
            trainer.step(size)
        nd.waitall()
        return float(losses.mean().asscalar())

    return run
