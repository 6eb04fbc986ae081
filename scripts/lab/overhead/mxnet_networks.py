"""The networks as Gluon's tutorials and its model zoo write them."""

from __future__ import annotations

from typing import Any

from mxnet import gluon
from mxnet.gluon import nn
from mxnet.gluon.contrib.nn import HybridConcurrent
from networks import (
    GOOGLENET,
    LONGEST,
    MINILM,
    NANOGPT,
    PATCH,
    POOL,
    RESNET50,
    RESNET56,
    TOKEN_TYPES,
    VGG_A,
    VIT_TINY,
    Inception,
    Network,
    Transformer,
)


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


class SelfAttention(gluon.HybridBlock):
    """As the BERT of GluonNLP: sequences come first, (T, N, C), and one layer makes queries, keys and values.

    `lengths` says for each row of the products, of (N heads) x T, how many keys count.
    """

    def __init__(self, of: Transformer, use_bias: bool = True) -> None:
        super().__init__()
        self._heads = of.heads
        self.projection = nn.Dense(3 * of.width, use_bias=use_bias, flatten=False)
        self.output = nn.Dense(of.width, use_bias=use_bias, flatten=False)

    def hybrid_forward(self, F: Any, x: Any, lengths: Any = None) -> Any:
        projected = self.projection(x)
        scores = F.contrib.interleaved_matmul_selfatt_qk(projected, heads=self._heads)
        if lengths is None:
            shares = F.softmax(scores, axis=-1)
        else:
            shares = F.softmax(scores, lengths, use_length=True, axis=-1)
        context = F.contrib.interleaved_matmul_selfatt_valatt(projected, shares, heads=self._heads)
        return self.output(context)


def feed_forward(of: Transformer, use_bias: bool = True) -> gluon.HybridBlock:
    return sequence(
        nn.Dense(of.hidden, use_bias=use_bias, flatten=False),
        nn.GELU(),
        nn.Dense(of.width, use_bias=use_bias, flatten=False),
    )


class PreNormLayer(gluon.HybridBlock):
    def __init__(self, of: Transformer, use_bias: bool = True) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(epsilon=of.epsilon) for _ in range(2))
        self.attention, self.mlp = SelfAttention(of, use_bias), feed_forward(of, use_bias)

    def hybrid_forward(self, F: Any, x: Any, lengths: Any = None) -> Any:
        normal = self.norm1(x)
        x = x + (self.attention(normal) if lengths is None else self.attention(normal, lengths))
        return x + self.mlp(self.norm2(x))


class PostNormLayer(gluon.HybridBlock):
    def __init__(self, of: Transformer) -> None:
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(epsilon=of.epsilon) for _ in range(2))
        self.attention, self.mlp = SelfAttention(of), feed_forward(of)

    def hybrid_forward(self, F: Any, x: Any, lengths: Any) -> Any:
        x = self.norm1(x + self.attention(x, lengths))
        return self.norm2(x + self.mlp(x))


class VisionTransformer(gluon.HybridBlock):
    def __init__(self, classes: int) -> None:
        super().__init__()
        width, length = VIT_TINY.width, (32 // PATCH) ** 2
        self.patches = nn.Conv2D(width, PATCH, PATCH)
        self.positions = self.params.get("positions", shape=(length, 1, width))
        self.layers = sequence(*(PreNormLayer(VIT_TINY) for _ in range(VIT_TINY.layers)))
        self.norm = nn.LayerNorm(epsilon=VIT_TINY.epsilon)
        self.head = nn.Dense(classes)

    def hybrid_forward(self, F: Any, x: Any, positions: Any) -> Any:
        x = F.transpose(F.reshape(self.patches(x), shape=(0, 0, -1)), axes=(2, 0, 1))
        x = self.layers(F.broadcast_add(x, positions))
        return self.head(F.mean(self.norm(x), axis=0))


class MiniLM(gluon.HybridBlock):
    def __init__(self, classes: int) -> None:
        super().__init__()
        width = MINILM.width
        self.words = nn.Embedding(30522, width)
        self.types = nn.Embedding(TOKEN_TYPES, width)
        self.positions = nn.Embedding(LONGEST, width)
        self.norm = nn.LayerNorm(epsilon=MINILM.epsilon)
        self.layers = nn.HybridSequential()
        self.layers.add(*(PostNormLayer(MINILM) for _ in range(MINILM.layers)))
        self.classifier = nn.Dense(classes)

    def hybrid_forward(self, F: Any, tokens: Any) -> Any:
        attended = tokens != 0
        count = F.sum(attended, axis=1)
        # One length for each row of the scores (N heads, T, T).
        lengths = F.broadcast_mul(F.ones_like(tokens), F.expand_dims(count, 1))
        lengths = F.cast(F.repeat(lengths, MINILM.heads, axis=0), "int32")
        tokens = F.transpose(tokens)
        places = F.contrib.arange_like(tokens, axis=0)
        x = self.words(tokens) + self.types(F.zeros_like(tokens))
        x = self.norm(F.broadcast_add(x, F.expand_dims(self.positions(places), 1)))
        for layer in self.layers:
            x = layer(x, lengths)
        weights = F.expand_dims(F.transpose(attended), 2)
        pooled = F.sum(F.broadcast_mul(x, weights), axis=0)
        return self.classifier(F.broadcast_div(pooled, F.expand_dims(F.maximum(count, 1), 1)))


class NanoGPT(gluon.HybridBlock):
    def __init__(self, classes: int) -> None:
        super().__init__()
        width = NANOGPT.width
        self.wte = nn.Embedding(classes, width)
        self.wpe = nn.Embedding(64, width)
        self.layers = nn.HybridSequential()
        self.layers.add(*(PreNormLayer(NANOGPT, use_bias=False) for _ in range(NANOGPT.layers)))
        self.norm = nn.LayerNorm(epsilon=NANOGPT.epsilon)
        # The table of the tokens is its weight.
        self.head = nn.Dense(classes, use_bias=False, flatten=False, in_units=width, params=self.wte.params)

    def hybrid_forward(self, F: Any, tokens: Any) -> Any:
        places = F.contrib.arange_like(tokens, axis=1)
        # Row t of the scores (N heads, T, T) has t + 1 keys.
        lengths = F.broadcast_add(F.zeros_like(tokens), F.expand_dims(places + 1, 0))
        lengths = F.cast(F.repeat(lengths, NANOGPT.heads, axis=0), "int32")
        x = self.wte(F.transpose(tokens))
        x = F.broadcast_add(x, F.expand_dims(self.wpe(places), 1))
        for layer in self.layers:
            x = layer(x, lengths)
        return self.head(F.transpose(self.norm(x), axes=(1, 0, 2)))


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
    "vit-tiny": VisionTransformer,
    "minilm": MiniLM,
    "nanogpt": NanoGPT,
}


def build(name: str, network: Network) -> gluon.HybridBlock:
    return MODELS[name](network.classes)
