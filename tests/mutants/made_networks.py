"""Small networks with the ops of mobile ones, as folders of imported networks."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "backends/python"))
from assay_worker.tensors import write_tensors

IMAGE, CLASSES = (3, 32, 32), 10
# Channels inside, channels of the result, stride.
BLOCKS = ((16, 16, 1), (64, 24, 2), (72, 24, 1), (96, 32, 2))


class Network:
    """Writes node after node; a name is that of a node and of its result."""

    def __init__(self, activation: str, attributes: dict[str, Any], squeezes: bool) -> None:
        self.activation, self.attributes, self.squeezes = activation, attributes, squeezes
        self.nodes: list[dict[str, Any]] = []
        self.tensors: list[dict[str, Any]] = []

    def node(self, name: str, op: str, *inputs: str | None, **attributes: Any) -> str:
        self.nodes.append({"name": name, "op": op, "inputs": [*inputs], "attributes": attributes})
        return name

    def tensor(self, name: str, shape: list[int], initializer: str, role: str = "parameter") -> str:
        self.tensors.append({"name": name, "shape": shape, "role": role, "initializer": initializer})
        return name

    def convolution(self, name: str, x: str, channels: int, filters: int, kernel: int, **window: Any) -> str:
        """A convolution without a bias, and its batch norm."""
        shape = [filters, channels // window.get("groups", 1), kernel, kernel]
        weight = self.tensor(f"{name}.weight", shape, "he_normal")
        y = self.node(name, "convolution", x, weight, None, padding=kernel // 2, **window)
        states = [
            self.tensor(f"{name}.bn.{of}", [filters], start, role)
            for of, start, role in (
                ("weight", "ones", "parameter"),
                ("bias", "zeros", "parameter"),
                ("mean", "zeros", "state"),
                ("variance", "ones", "state"),
            )
        ]
        return self.node(f"{name}.bn", "batch_norm", y, *states, epsilon=1e-3, momentum=0.99)

    def active(self, x: str) -> str:
        return self.node(f"{x}.active", self.activation, x, **self.attributes)

    def linear(self, name: str, x: str, inputs: int, outputs: int) -> str:
        weight = self.tensor(f"{name}.weight", [outputs, inputs], "glorot_uniform")
        return self.node(name, "linear", x, weight, self.tensor(f"{name}.bias", [outputs], "zeros"))

    def squeeze(self, name: str, x: str, channels: int) -> str:
        """Scale each channel by what a small network makes of all means."""
        means = self.node(f"{name}.means", "reduce", x, kind="mean", axes=[2, 3])
        inner = self.node(f"{name}.relu", "relu", self.linear(f"{name}.fc1", means, channels, channels // 4))
        outer = self.linear(f"{name}.fc2", inner, channels // 4, channels)
        gate = self.node(f"{name}.gate", "hard_sigmoid", outer, alpha=1 / 6, beta=0.5)
        scale = self.node(f"{name}.scale", "reshape", gate, shape=[-1, channels, 1, 1])
        return self.node(name, "multiply", x, scale)

    def block(self, name: str, x: str, channels: int, inside: int, filters: int, stride: int) -> str:
        """Wider, then each channel by itself, then narrower: an inverted residual."""
        y = self.active(self.convolution(f"{name}.wide", x, channels, inside, 1, stride=1))
        y = self.active(self.convolution(f"{name}.each", y, inside, inside, 3, stride=stride, groups=inside))
        if self.squeezes:
            y = self.squeeze(f"{name}.squeeze", y, inside)
        y = self.convolution(f"{name}.narrow", y, inside, filters, 1, stride=1)
        return self.node(f"{name}.sum", "add", y, x) if stride == 1 and channels == filters else y

    def document(self, name: str) -> dict[str, Any]:
        channels = 16
        x = self.active(self.convolution("stem", "images", IMAGE[0], channels, 3, stride=2))
        for number, (inside, filters, stride) in enumerate(BLOCKS):
            x, channels = self.block(f"block{number}", x, channels, inside, filters, stride), filters
        x = self.active(self.convolution("head", x, channels, 128, 1, stride=1))
        x = self.node("mean", "reduce", x, kind="mean", axes=[2, 3])
        return {
            "schema": "assay-network/1",
            "description": f"{name}, made for false-alarms",
            "input": {"name": "images", "dtype": "f32", "shape": ["N", *IMAGE]},
            "output": self.linear("fc", x, 128, CLASSES),
            "tensors": self.tensors,
            "nodes": self.nodes,
        }


# As MobileNetV2 and V3 have them.
MADE: dict[str, tuple[str, dict[str, Any], bool]] = {
    "mobile-relu6": ("clamp", {"least": 0.0, "most": 6.0}, False),
    "mobile-hard-swish": ("hard_swish", {}, True),
}


def write_network(name: str, folders: Path) -> Path:
    document = Network(*MADE[name]).document(name)
    folder = folders / name
    folder.mkdir(exist_ok=True)
    (folder / "network.json").write_text(json.dumps(document))
    random = np.random.default_rng(1)
    weights = {}
    for tensor in document["tensors"]:
        shape, start = tensor["shape"], tensor["initializer"]
        deviation = math.sqrt(2 / math.prod(shape[1:])) if start.startswith(("he", "glorot")) else 0
        value = np.full(shape, start == "ones", np.float32)
        weights[tensor["name"]] = (value + deviation * random.standard_normal(shape)).astype(np.float32)
    write_tensors(folder / "weights.safetensors", weights)
    return folder
