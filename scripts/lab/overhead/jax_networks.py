"""The networks as functions of their parameters, images in NHWC and weights (in, out), as in Flax.

A `Module` makes a parameter when a network first asks for it, and returns the same one later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
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

Parameters = dict[str, dict[str, Array]]
Padding = list[tuple[int, int]]


def even(padding: int) -> Padding:
    return [(padding, padding), (padding, padding)]


class Module:
    """Parameters and running statistics by the name of their layer, and the layers that use them."""

    def __init__(
        self,
        parameters: Parameters | None = None,
        state: Parameters | None = None,
        key: Array | None = None,
        training: bool = False,
    ) -> None:
        self.making = parameters is None
        self.parameters: Parameters = parameters or {}
        self.state: Parameters = dict(state or {})
        self.key = key
        self.training = training

    def weights(self, name: str, shape: tuple[int, ...], fan_in: int) -> dict[str, Array]:
        if self.making:
            self.key, key = jax.random.split(self.key)
            kernel = jax.random.normal(key, shape) * np.sqrt(2 / fan_in).astype(np.float32)
            self.parameters[name] = {"kernel": kernel, "bias": jnp.zeros(shape[-1])}
        return self.parameters[name]

    def dense(self, name: str, x: Array, features: int, bias: bool = True) -> Array:
        p = self.weights(name, (x.shape[-1], features), x.shape[-1])
        if self.making and not bias:
            del p["bias"]
        y = x @ p["kernel"]
        return y + p["bias"] if bias else y

    def conv(
        self,
        name: str,
        x: Array,
        features: int,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        bias: bool = True,
    ) -> Array:
        channels = x.shape[-1]
        p = self.weights(name, (kernel, kernel, channels, features), kernel * kernel * channels)
        if self.making and not bias:
            del p["bias"]
        y = lax.conv_general_dilated(
            *(x, p["kernel"], (stride, stride), even(padding)), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return y + p["bias"] if bias else y

    def batch_norm(self, name: str, x: Array, momentum: float, epsilon: float) -> Array:
        if self.making:
            ones, zeros = jnp.ones(x.shape[-1]), jnp.zeros(x.shape[-1])
            self.parameters[name] = {"scale": ones, "bias": zeros}
            self.state[name] = {"mean": zeros, "var": ones}
        p, running = self.parameters[name], self.state[name]
        mean, var = running["mean"], running["var"]
        if self.training:
            mean = x.mean((0, 1, 2))
            var = jnp.maximum(0, (x * x).mean((0, 1, 2)) - mean * mean)
            self.state[name] = {
                "mean": momentum * running["mean"] + (1 - momentum) * mean,
                "var": momentum * running["var"] + (1 - momentum) * var,
            }
        return (x - mean) * (lax.rsqrt(var + epsilon) * p["scale"]) + p["bias"]

    def layer_norm(self, name: str, x: Array, epsilon: float) -> Array:
        if self.making:
            self.parameters[name] = {"scale": jnp.ones(x.shape[-1]), "bias": jnp.zeros(x.shape[-1])}
        p = self.parameters[name]
        mean = x.mean(-1, keepdims=True)
        # The fast variance of Flax.
        var = jnp.maximum(0, (x * x).mean(-1, keepdims=True) - mean * mean)
        return (x - mean) * (lax.rsqrt(var + epsilon) * p["scale"]) + p["bias"]

    def attention(
        self,
        name: str,
        x: Array,
        heads: int,
        mask: Array | None = None,
        causal: bool = False,
        bias: bool = True,
    ) -> Array:
        """Multi-head attention of x (N, T, C) to itself."""
        *leading, width = x.shape
        q, k, v = (
            self.dense(f"{name}.{part}", x, width, bias).reshape(*leading, heads, width // heads)
            for part in ("query", "key", "value")
        )
        y = jax.nn.dot_product_attention(q, k, v, mask=mask, is_causal=causal)
        return self.dense(f"{name}.out", y.reshape(x.shape), width, bias)

    def mlp(self, name: str, x: Array, hidden: int, bias: bool = True) -> Array:
        y = jax.nn.gelu(self.dense(f"{name}.fc1", x, hidden, bias), approximate=False)
        return self.dense(f"{name}.fc2", y, x.shape[-1], bias)

    def pre_norm_layer(
        self, name: str, x: Array, of: Transformer, causal: bool = False, bias: bool = True
    ) -> Array:
        normal = self.layer_norm(f"{name}.ln1", x, of.epsilon)
        x = x + self.attention(f"{name}.attn", normal, of.heads, causal=causal, bias=bias)
        return x + self.mlp(f"{name}.mlp", self.layer_norm(f"{name}.ln2", x, of.epsilon), of.hidden, bias)

    def table(self, name: str, rows: int, features: int) -> Array:
        if self.making:
            self.key, key = jax.random.split(self.key)
            table = jax.random.normal(key, (rows, features)) * np.float32(0.02)
            self.parameters[name] = {"embedding": table}
        return self.parameters[name]["embedding"]

    def dropout(self, x: Array, rate: float) -> Array:
        if not self.training:
            return x
        self.key, key = jax.random.split(self.key)
        return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)

    def embed(self, name: str, tokens: Array, rows: int, features: int) -> Array:
        if self.making:
            self.key, key = jax.random.split(self.key)
            table = jax.random.normal(key, (rows, features)) * np.float32(features**-0.5)
            self.parameters[name] = {"embedding": table}
        return self.parameters[name]["embedding"][tokens]

    def lstm(self, name: str, x: Array, units: int) -> Array:
        """Return the last output of a sequence (N, T, C)."""
        p = self.weights(name, (x.shape[-1], 4 * units), x.shape[-1])
        if self.making:
            self.key, key = jax.random.split(self.key)
            p["recurrent"] = jax.random.normal(key, (units, 4 * units)) * np.float32(units**-0.5)

        def cell(carry: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], None]:
            h, c = carry
            gates = x @ p["kernel"] + h @ p["recurrent"] + p["bias"]
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zeros = jnp.zeros((len(x), units))
        (h, _), _ = lax.scan(cell, (zeros, zeros), x.swapaxes(0, 1))
        return h


def avg_pool(x: Array, size: int) -> Array:
    window = (1, size, size, 1)
    return lax.reduce_window(x, 0.0, lax.add, window, window, "VALID") / size**2


def max_pool(x: Array, size: int, stride: int, padding: int = 0) -> Array:
    padded = [(0, 0), *even(padding), (0, 0)]
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), padded)


def flatten(x: Array) -> Array:
    return x.reshape(len(x), -1)


relu = jax.nn.relu


def mlp(m: Module, x: Array, classes: int) -> Array:
    return m.dense("fc2", relu(m.dense("fc1", flatten(x), 128)), classes)


def lenet5(m: Module, x: Array, classes: int) -> Array:
    x = avg_pool(relu(m.conv("conv1", x, 6, 5)), 2)
    x = flatten(avg_pool(relu(m.conv("conv2", x, 16, 3)), 2))
    x = relu(m.dense("fc1", x, 120))
    x = relu(m.dense("fc2", x, 84))
    return m.dense("fc3", x, classes)


def cnn(m: Module, x: Array, classes: int) -> Array:
    x = relu(m.conv("conv1", x, 64, 3))
    x = relu(m.conv("conv2", x, 32, 3))
    return m.dense("fc", flatten(x), classes)


def resnet56(m: Module, x: Array, classes: int) -> Array:
    def normalised(name: str, x: Array, features: int, stride: int) -> Array:
        return m.batch_norm(f"{name}.norm", m.conv(name, x, features, 3, stride, 1), 0.99, 1e-3)

    x = relu(normalised("conv1", x, 16, 1))
    for stage, (blocks, features) in enumerate(RESNET56):
        for i in range(blocks):
            name, stride = f"block{stage}.{i}", 2 if stage and i == 0 else 1
            y = relu(normalised(f"{name}.conv1", x, features, stride))
            y = normalised(f"{name}.conv2", y, features, 1)
            if stride > 1:
                x = m.conv(f"{name}.shortcut", x, features, 1, stride)
            x = relu(x + y)
    return m.dense("fc", flatten(avg_pool(x, 8)), classes)


def resnet50(m: Module, x: Array, classes: int) -> Array:
    def normalised(name: str, x: Array, features: int, kernel: int, stride: int = 1) -> Array:
        y = m.conv(name, x, features, kernel, stride, kernel // 2, bias=False)
        return m.batch_norm(f"{name}.norm", y, 0.9, 1e-5)

    x = max_pool(relu(normalised("conv1", x, 64, 7, 2)), 3, 2, 1)
    for stage, (blocks, features) in enumerate(RESNET50):
        for i in range(blocks):
            name, stride = f"block{stage}.{i}", 2 if stage and i == 0 else 1
            shortcut = normalised(f"{name}.shortcut", x, 4 * features, 1, stride) if i == 0 else x
            y = relu(normalised(f"{name}.conv1", x, features, 1, stride))
            y = relu(normalised(f"{name}.conv2", y, features, 3))
            x = relu(shortcut + normalised(f"{name}.conv3", y, 4 * features, 1))
    return m.dense("fc", flatten(avg_pool(x, 7)), classes)


def lstm(m: Module, tokens: Array, classes: int) -> Array:
    return m.dense("fc", m.lstm("lstm", m.embed("embedding", tokens, 5000, 128), 128), classes)


def cifar10_cnn(m: Module, x: Array, classes: int) -> Array:
    for features in (32, 64):
        x = relu(m.conv(f"conv{features}.1", x, features, 3, padding=1))
        x = relu(m.conv(f"conv{features}.2", x, features, 3))
        x = m.dropout(max_pool(x, 2, 2), 0.25)
    x = m.dropout(relu(m.dense("fc1", flatten(x), 512)), 0.5)
    return m.dense("fc2", x, classes)


def alexnet(m: Module, x: Array, classes: int) -> Array:
    x = max_pool(relu(m.conv("conv1", x, 64, 11, 4, 2)), 3, 2)
    x = max_pool(relu(m.conv("conv2", x, 192, 5, 1, 2)), 3, 2)
    x = relu(m.conv("conv3", x, 384, 3, 1, 1))
    x = relu(m.conv("conv4", x, 256, 3, 1, 1))
    x = max_pool(relu(m.conv("conv5", x, 256, 3, 1, 1)), 3, 2)
    x = relu(m.dense("fc1", flatten(x), 4096))
    return m.dense("fc3", relu(m.dense("fc2", x, 4096)), classes)


def overfeat(m: Module, x: Array, classes: int) -> Array:
    x = max_pool(relu(m.conv("conv1", x, 96, 11, 4)), 2, 2)
    x = max_pool(relu(m.conv("conv2", x, 256, 5)), 2, 2)
    x = relu(m.conv("conv3", x, 512, 3, 1, 1))
    x = relu(m.conv("conv4", x, 1024, 3, 1, 1))
    x = max_pool(relu(m.conv("conv5", x, 1024, 3, 1, 1)), 2, 2)
    x = relu(m.dense("fc1", flatten(x), 3072))
    return m.dense("fc3", relu(m.dense("fc2", x, 4096)), classes)


def vgg_a(m: Module, x: Array, classes: int) -> Array:
    for number, features in enumerate(VGG_A):
        x = max_pool(x, 2, 2) if features == POOL else relu(m.conv(f"conv{number}", x, features, 3, 1, 1))
    x = relu(m.dense("fc1", flatten(x), 4096))
    return m.dense("fc3", relu(m.dense("fc2", x, 4096)), classes)


def googlenet(m: Module, x: Array, classes: int) -> Array:
    def convolved(name: str, x: Array, features: int, kernel: int, stride: int = 1) -> Array:
        return relu(m.conv(name, x, features, kernel, stride, kernel // 2))

    def inception(name: str, x: Array, of: Inception) -> Array:
        ones = convolved(f"{name}.1", x, of.ones, 1)
        threes = convolved(f"{name}.3", convolved(f"{name}.3before", x, of.before_threes, 1), of.threes, 3)
        fives = convolved(f"{name}.5", convolved(f"{name}.5before", x, of.before_fives, 1), of.fives, 5)
        pooled = convolved(f"{name}.pool", max_pool(x, 3, 1, 1), of.pooled, 1)
        return jnp.concatenate([ones, threes, fives, pooled], -1)

    x = max_pool(convolved("conv1", x, 64, 7, 2), 3, 2, 1)
    x = max_pool(convolved("conv3", convolved("conv2", x, 64, 1), 192, 3), 3, 2, 1)
    for number, block in enumerate(GOOGLENET):
        x = max_pool(x, 3, 2, 1) if block is None else inception(f"inception{number}", x, block)
    return relu(m.dense("fc", flatten(avg_pool(x, 7)), classes))


def vit_tiny(m: Module, x: Array, classes: int) -> Array:
    x = m.conv("patches", x, VIT_TINY.width, PATCH, PATCH).reshape(len(x), -1, VIT_TINY.width)
    x = x + m.table("positions", x.shape[1], VIT_TINY.width)
    for i in range(VIT_TINY.layers):
        x = m.pre_norm_layer(f"layer{i}", x, VIT_TINY)
    return m.dense("head", m.layer_norm("norm", x, VIT_TINY.epsilon).mean(1), classes)


def minilm(m: Module, tokens: Array, classes: int) -> Array:
    width, epsilon = MINILM.width, MINILM.epsilon
    attended = tokens != 0
    x = m.table("words", 30522, width)[tokens]
    x = x + m.table("types", TOKEN_TYPES, width)[0]
    x = m.layer_norm("norm", x + m.table("positions", LONGEST, width)[: tokens.shape[1]], epsilon)
    for i in range(MINILM.layers):
        name = f"layer{i}"
        y = m.attention(f"{name}.attn", x, MINILM.heads, attended[:, None, None, :])
        x = m.layer_norm(f"{name}.ln1", x + y, epsilon)
        x = m.layer_norm(f"{name}.ln2", x + m.mlp(f"{name}.mlp", x, MINILM.hidden), epsilon)
    weights = attended[..., None].astype(x.dtype)
    return m.dense("classifier", (x * weights).sum(1) / jnp.maximum(weights.sum(1), 1e-9), classes)


def nanogpt(m: Module, tokens: Array, classes: int) -> Array:
    width = NANOGPT.width
    table = m.table("wte", classes, width)
    x = table[tokens] + m.table("wpe", tokens.shape[1], width)
    for i in range(NANOGPT.layers):
        x = m.pre_norm_layer(f"layer{i}", x, NANOGPT, causal=True, bias=False)
    return m.layer_norm("ln_f", x, NANOGPT.epsilon) @ table.T


MODELS: dict[str, Callable[[Module, Array, int], Array]] = {
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


def init(name: str, network: Network) -> Callable[[Array, Array], tuple[Parameters, Parameters]]:
    """Return a function that makes parameters and running statistics from a key and an input."""

    def make(key: Array, inputs: Array) -> tuple[Parameters, Parameters]:
        module = Module(key=key)
        MODELS[name](module, inputs, network.classes)
        return module.parameters, module.state

    return make


def apply(name: str, network: Network) -> Callable[..., Any]:
    """Return a function from parameters, running statistics and inputs to logits and new statistics."""

    def run(
        parameters: Parameters, state: Parameters, inputs: Array, training: bool, key: Array | None = None
    ) -> tuple[Array, Parameters]:
        module = Module(parameters, state, key, training)
        return MODELS[name](module, inputs, network.classes), module.state

    return run
