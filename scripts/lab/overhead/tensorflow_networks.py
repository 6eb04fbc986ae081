"""The networks as Keras's examples and keras.applications write them."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers, ops
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


def mlp(classes: int) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(classes),
        ]
    )


def lenet5(classes: int) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            *(layers.Conv2D(6, 5, activation="relu"), layers.AveragePooling2D(2)),
            *(layers.Conv2D(16, 3, activation="relu"), layers.AveragePooling2D(2)),
            layers.Flatten(),
            *(layers.Dense(120, activation="relu"), layers.Dense(84, activation="relu")),
            layers.Dense(classes),
        ]
    )


def cnn(classes: int) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            *(layers.Conv2D(64, 3, activation="relu"), layers.Conv2D(32, 3, activation="relu")),
            *(layers.Flatten(), layers.Dense(classes)),
        ]
    )


def padded(x: Any, filters: int, kernel: int, stride: int, **more: Any) -> Any:
    """Pad all sides equally, as keras.applications does if the stride is not 1."""
    if stride > 1:
        x = layers.ZeroPadding2D(kernel // 2)(x)
    return layers.Conv2D(filters, kernel, stride, "valid" if stride > 1 else "same", **more)(x)


def resnet56(classes: int) -> keras.Model:
    def normalised(x: Any, filters: int, stride: int) -> Any:
        return layers.BatchNormalization()(padded(x, filters, 3, stride, kernel_initializer="he_normal"))

    inputs = keras.Input((32, 32, 3))
    x = layers.ReLU()(normalised(inputs, 16, 1))
    for stage, (blocks, filters) in enumerate(RESNET56):
        for i in range(blocks):
            stride = 2 if stage and i == 0 else 1
            y = layers.ReLU()(normalised(x, filters, stride))
            y = normalised(y, filters, 1)
            if stride > 1:
                x = layers.Conv2D(filters, 1, stride, kernel_initializer="he_normal")(x)
            x = layers.ReLU()(layers.add([x, y]))
    x = layers.Flatten()(layers.AveragePooling2D(8)(x))
    return keras.Model(inputs, layers.Dense(classes, kernel_initializer="he_normal")(x))


def resnet50(classes: int) -> keras.Model:
    def normalised(x: Any, filters: int, kernel: int, stride: int = 1) -> Any:
        x = (
            padded(x, filters, kernel, stride, use_bias=False)
            if kernel > 1
            else layers.Conv2D(filters, 1, stride, use_bias=False)(x)
        )
        return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)

    inputs = keras.Input((224, 224, 3))
    x = layers.ReLU()(normalised(inputs, 64, 7, 2))
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))
    for stage, (blocks, filters) in enumerate(RESNET50):
        for i in range(blocks):
            stride = 2 if stage and i == 0 else 1
            shortcut = normalised(x, 4 * filters, 1, stride) if i == 0 else x
            y = layers.ReLU()(normalised(x, filters, 1, stride))
            y = layers.ReLU()(normalised(y, filters, 3))
            y = normalised(y, 4 * filters, 1)
            x = layers.ReLU()(layers.add([shortcut, y]))
    x = layers.Flatten()(layers.AveragePooling2D(7)(x))
    return keras.Model(inputs, layers.Dense(classes)(x))


def lstm(classes: int) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((500,), dtype="int32"),
            *(layers.Embedding(5000, 128), layers.LSTM(128), layers.Dense(classes)),
        ]
    )


def cifar10_cnn(classes: int) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, activation="relu"),
            *(layers.MaxPooling2D(2), layers.Dropout(0.25)),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            *(layers.MaxPooling2D(2), layers.Dropout(0.25)),
            *(layers.Flatten(), layers.Dense(512, activation="relu"), layers.Dropout(0.5)),
            layers.Dense(classes),
        ]
    )


def alexnet(classes: int) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((224, 224, 3)),
            *(layers.ZeroPadding2D(2), layers.Conv2D(64, 11, 4, activation="relu")),
            layers.MaxPooling2D(3, 2),
            *(layers.Conv2D(192, 5, padding="same", activation="relu"), layers.MaxPooling2D(3, 2)),
            layers.Conv2D(384, 3, padding="same", activation="relu"),
            layers.Conv2D(256, 3, padding="same", activation="relu"),
            *(layers.Conv2D(256, 3, padding="same", activation="relu"), layers.MaxPooling2D(3, 2)),
            *(layers.Flatten(), layers.Dense(4096, activation="relu")),
            *(layers.Dense(4096, activation="relu"), layers.Dense(classes)),
        ]
    )


def overfeat(classes: int) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((231, 231, 3)),
            *(layers.Conv2D(96, 11, 4, activation="relu"), layers.MaxPooling2D(2)),
            *(layers.Conv2D(256, 5, activation="relu"), layers.MaxPooling2D(2)),
            layers.Conv2D(512, 3, padding="same", activation="relu"),
            layers.Conv2D(1024, 3, padding="same", activation="relu"),
            *(layers.Conv2D(1024, 3, padding="same", activation="relu"), layers.MaxPooling2D(2)),
            *(layers.Flatten(), layers.Dense(3072, activation="relu")),
            *(layers.Dense(4096, activation="relu"), layers.Dense(classes)),
        ]
    )


def vgg_a(classes: int) -> keras.Model:
    found = [keras.Input((224, 224, 3))]
    for filters in VGG_A:
        pool = filters == POOL
        found.append(
            layers.MaxPooling2D(2) if pool else layers.Conv2D(filters, 3, padding="same", activation="relu")
        )
    found += [layers.Flatten(), layers.Dense(4096, activation="relu"), layers.Dense(4096, activation="relu")]
    return keras.Sequential([*found, layers.Dense(classes)])


def googlenet(classes: int) -> keras.Model:
    def convolved(x: Any, filters: int, kernel: int) -> Any:
        return layers.Conv2D(filters, kernel, padding="same", activation="relu")(x)

    def halved(x: Any) -> Any:
        return layers.MaxPooling2D(3, 2)(
            layers.ZeroPadding2D(1)(x)
        )  # after a ReLU a zero is never the maximum

    def inception(x: Any, of: Inception) -> Any:
        ones = convolved(x, of.ones, 1)
        threes = convolved(convolved(x, of.before_threes, 1), of.threes, 3)
        fives = convolved(convolved(x, of.before_fives, 1), of.fives, 5)
        pooled = convolved(layers.MaxPooling2D(3, 1, "same")(x), of.pooled, 1)
        return layers.concatenate([ones, threes, fives, pooled])

    inputs = keras.Input((224, 224, 3))
    x = halved(padded(inputs, 64, 7, 2, activation="relu"))
    x = halved(convolved(convolved(x, 64, 1), 192, 3))
    for block in GOOGLENET:
        x = halved(x) if block is None else inception(x, block)
    x = layers.Flatten()(layers.AveragePooling2D(7)(x))
    return keras.Model(inputs, layers.Dense(classes, activation="relu")(x))


def attention(x: Any, of: Transformer, use_bias: bool = True, **masks: Any) -> Any:
    return layers.MultiHeadAttention(of.heads, of.width // of.heads, use_bias=use_bias)(x, x, **masks)


def feed_forward(x: Any, of: Transformer, use_bias: bool = True) -> Any:
    x = layers.Dense(of.hidden, use_bias=use_bias)(x)
    return layers.Dense(of.width, use_bias=use_bias)(keras.activations.gelu(x))


def norm(x: Any, of: Transformer) -> Any:
    return layers.LayerNormalization(epsilon=of.epsilon)(x)


class Positions(layers.Layer):
    """Add learned positions, as TokenAndPositionEmbedding and PatchEncoder of Keras's examples do."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.position_embedding = layers.Embedding(rows, width)

    def call(self, x: Any) -> Any:
        return x + self.position_embedding(ops.arange(x.shape[1]))


def vit_tiny(classes: int) -> keras.Model:
    inputs = keras.Input((32, 32, 3))
    length, width = (32 // PATCH) ** 2, VIT_TINY.width
    x = layers.Reshape((length, width))(layers.Conv2D(width, PATCH, PATCH)(inputs))
    x = Positions(length, width)(x)
    for _ in range(VIT_TINY.layers):
        x = layers.add([x, attention(norm(x, VIT_TINY), VIT_TINY)])
        x = layers.add([x, feed_forward(norm(x, VIT_TINY), VIT_TINY)])
    x = layers.GlobalAveragePooling1D()(norm(x, VIT_TINY))
    return keras.Model(inputs, layers.Dense(classes)(x))


def minilm(classes: int) -> keras.Model:
    tokens = keras.Input((128,), dtype="int32")
    width = MINILM.width
    attended = ops.not_equal(tokens, 0)
    x = layers.Embedding(30522, width)(tokens) + layers.Embedding(TOKEN_TYPES, width)(ops.zeros_like(tokens))
    x = norm(Positions(LONGEST, width)(x), MINILM)
    for _ in range(MINILM.layers):
        y = attention(x, MINILM, attention_mask=ops.expand_dims(attended, 1))
        x = norm(layers.add([x, y]), MINILM)
        x = norm(layers.add([x, feed_forward(x, MINILM)]), MINILM)
    x = layers.GlobalAveragePooling1D()(x, mask=attended)
    return keras.Model(tokens, layers.Dense(classes)(x))


def nanogpt(classes: int) -> keras.Model:
    tokens = keras.Input((64,), dtype="int32")
    embedding = layers.ReversibleEmbedding(classes, NANOGPT.width)
    x = Positions(64, NANOGPT.width)(embedding(tokens))
    for _ in range(NANOGPT.layers):
        y = attention(norm(x, NANOGPT), NANOGPT, use_bias=False, use_causal_mask=True)
        x = layers.add([x, y])
        x = layers.add([x, feed_forward(norm(x, NANOGPT), NANOGPT, use_bias=False)])
    return keras.Model(tokens, embedding(norm(x, NANOGPT), reverse=True))


MODELS = {
    "mlp": mlp,
    "lenet5": lenet5,
    "cnn": cnn,
    "resnet56": resnet56,
    "lstm": lstm,
    "cifar10-cnn": cifar10_cnn,
    "resnet50": resnet50,
    "alexnet": alexnet,
    "overfeat": overfeat,
    "vgg_a": vgg_a,
    "googlenet": googlenet,
    "vit-tiny": vit_tiny,
    "minilm": minilm,
    "nanogpt": nanogpt,
}


def build(name: str, network: Network) -> keras.Model:
    return MODELS[name](network.classes)
