"""The networks as Gluon's tutorials and its model zoo write them."""

from __future__ import annotations

from typing import Any

from mxnet import gluon
from mxnet.gluon import nn
from mxnet.gluon.contrib.nn import HybridConcurrent
from networks import GOOGLENET, POOL, RESNET50, RESNET56, VGG_A, Inception, Network


def sequence(*layers: gluon.HybridBlock) -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(*layers)
    return net


def mlp(classes: int) -> gluon.HybridBlock:
    return sequence(nn.Dense(128, activation="relu"), nn.Dense(classes))


def lenet5(classes: int) -> gluon.HybridBlock:
    return sequence(
        *(nn.Conv2D(6, 5, activation="relu"), nn.AvgPool2D(2, 2)),
        *(nn.Conv2D(16, 3, activation="relu"), nn.AvgPool2D(2, 2)),
        *(nn.Dense(120, activation="relu"), nn.Dense(84, activation="relu"), nn.Dense(classes)),
    )


def cnn(classes: int) -> gluon.HybridBlock:
    return sequence(
        nn.Conv2D(64, 3, activation="relu"), nn.Conv2D(32, 3, activation="relu"), nn.Dense(classes)
    )


class BasicBlock(gluon.HybridBlock):
    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.body = sequence(
            nn.Conv2D(channels, 3, stride, 1),
            *(nn.BatchNorm(momentum=0.99, epsilon=1e-3), nn.Activation("relu")),
            nn.Conv2D(channels, 3, 1, 1),
            nn.BatchNorm(momentum=0.99, epsilon=1e-3),
        )
        self.downsample = None if stride == 1 else nn.Conv2D(channels, 1, stride)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        shortcut = self.downsample(x) if self.downsample else x
        return F.Activation(shortcut + self.body(x), "relu")


def resnet56(classes: int) -> gluon.HybridBlock:
    net = sequence(nn.Conv2D(16, 3, 1, 1), nn.BatchNorm(momentum=0.99, epsilon=1e-3), nn.Activation("relu"))
    for stage, (blocks, channels) in enumerate(RESNET56):
        net.add(*(BasicBlock(channels, 2 if stage and i == 0 else 1) for i in range(blocks)))
    net.add(nn.AvgPool2D(8, 8), nn.Dense(classes))
    return net


class Bottleneck(gluon.HybridBlock):
    def __init__(self, channels: int, stride: int, first: bool) -> None:
        super().__init__()
        self.body = sequence(
            *(nn.Conv2D(channels, 1, stride, use_bias=False), nn.BatchNorm(), nn.Activation("relu")),
            *(nn.Conv2D(channels, 3, 1, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu")),
            *(nn.Conv2D(4 * channels, 1, use_bias=False), nn.BatchNorm()),
        )
        self.downsample = None
        if first:
            self.downsample = sequence(nn.Conv2D(4 * channels, 1, stride, use_bias=False), nn.BatchNorm())

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        shortcut = self.downsample(x) if self.downsample else x
        return F.Activation(shortcut + self.body(x), "relu")


def resnet50(classes: int) -> gluon.HybridBlock:
    net = sequence(nn.Conv2D(64, 7, 2, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    net.add(nn.MaxPool2D(3, 2, 1))
    for stage, (blocks, channels) in enumerate(RESNET50):
        net.add(*(Bottleneck(channels, 2 if stage and i == 0 else 1, i == 0) for i in range(blocks)))
    net.add(nn.AvgPool2D(7, 7), nn.Dense(classes))
    return net


class TextClassifier(gluon.HybridBlock):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5000, 128)
        self.lstm = gluon.rnn.LSTM(128, layout="NTC", input_size=128)
        # Gluon has two biases that are only added; the published network has one.
        self.lstm.collect_params(".*h2h_bias").setattr("grad_req", "null")
        self.fc = nn.Dense(classes)

    def hybrid_forward(self, F: Any, tokens: Any) -> Any:
        outputs = self.lstm(self.embedding(tokens))
        return self.fc(F.slice_axis(outputs, axis=1, begin=-1, end=None))


def cifar10_cnn(classes: int) -> gluon.HybridBlock:
    net = nn.HybridSequential()
    for channels in (32, 64):
        net.add(
            nn.Conv2D(channels, 3, padding=1, activation="relu"), nn.Conv2D(channels, 3, activation="relu")
        )
        net.add(nn.MaxPool2D(2, 2), nn.Dropout(0.25))
    net.add(nn.Dense(512, activation="relu"), nn.Dropout(0.5), nn.Dense(classes))
    return net


def alexnet(classes: int) -> gluon.HybridBlock:
    return sequence(
        *(nn.Conv2D(64, 11, 4, 2, activation="relu"), nn.MaxPool2D(3, 2)),
        *(nn.Conv2D(192, 5, padding=2, activation="relu"), nn.MaxPool2D(3, 2)),
        nn.Conv2D(384, 3, padding=1, activation="relu"),
        nn.Conv2D(256, 3, padding=1, activation="relu"),
        *(nn.Conv2D(256, 3, padding=1, activation="relu"), nn.MaxPool2D(3, 2)),
        *(nn.Dense(4096, activation="relu"), nn.Dense(4096, activation="relu"), nn.Dense(classes)),
    )


def overfeat(classes: int) -> gluon.HybridBlock:
    return sequence(
        *(nn.Conv2D(96, 11, 4, activation="relu"), nn.MaxPool2D(2, 2)),
        *(nn.Conv2D(256, 5, activation="relu"), nn.MaxPool2D(2, 2)),
        nn.Conv2D(512, 3, padding=1, activation="relu"),
        nn.Conv2D(1024, 3, padding=1, activation="relu"),
        *(nn.Conv2D(1024, 3, padding=1, activation="relu"), nn.MaxPool2D(2, 2)),
        *(nn.Dense(3072, activation="relu"), nn.Dense(4096, activation="relu"), nn.Dense(classes)),
    )


def vgg_a(classes: int) -> gluon.HybridBlock:
    net = nn.HybridSequential()
    for channels in VGG_A:
        pool = channels == POOL
        net.add(nn.MaxPool2D(2, 2) if pool else nn.Conv2D(channels, 3, padding=1, activation="relu"))
    net.add(nn.Dense(4096, activation="relu"), nn.Dense(4096, activation="relu"), nn.Dense(classes))
    return net


def convolved(channels: int, kernel: int, stride: int = 1) -> gluon.HybridBlock:
    return nn.Conv2D(channels, kernel, stride, kernel // 2, activation="relu")


def inception(of: Inception) -> gluon.HybridBlock:
    net = HybridConcurrent(axis=1)
    net.add(convolved(of.ones, 1))
    net.add(sequence(convolved(of.before_threes, 1), convolved(of.threes, 3)))
    net.add(sequence(convolved(of.before_fives, 1), convolved(of.fives, 5)))
    net.add(sequence(nn.MaxPool2D(3, 1, 1), convolved(of.pooled, 1)))
    return net


def googlenet(classes: int) -> gluon.HybridBlock:
    net = sequence(convolved(64, 7, 2), nn.MaxPool2D(3, 2, 1))
    net.add(convolved(64, 1), convolved(192, 3), nn.MaxPool2D(3, 2, 1))
    for block in GOOGLENET:
        net.add(nn.MaxPool2D(3, 2, 1) if block is None else inception(block))
    net.add(nn.AvgPool2D(7, 7), nn.Dense(classes, activation="relu"))
    return net


MODELS = {
    "mlp": mlp,
    "lenet5": lenet5,
    "cnn": cnn,
    "resnet56": resnet56,
    "lstm": TextClassifier,
    "cifar10-cnn": cifar10_cnn,
    "resnet50": resnet50,
    "alexnet": alexnet,
    "overfeat": overfeat,
    "vgg_a": vgg_a,
    "googlenet": googlenet,
}


def build(name: str, network: Network) -> gluon.HybridBlock:
    return MODELS[name](network.classes)
