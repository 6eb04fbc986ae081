"""Mistakes planted into the importer: each changes what a small network computes by more than roundings."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import network_interpreter
import numpy as np
import pytest
from import_mistakes import MISTAKES, Mistake
from imported import ROUNDINGS, inputs_for, model, node, onnx_or_skip, random, saved
from worker_under_test import ROOT

onnx = onnx_or_skip()

PACKAGE = ROOT / "backends/python/assay_import"
DATA = ROOT / "tests/import/data"


def cnn() -> Any:
    nodes = [
        node("Conv", "x w1", "c1", pads=[1] * 4),
        node("Add", "c1 b1", "c2"),
        node("Conv", "c2 w2 b2", "c3", pads=[1] * 4),
        node("BatchNormalization", "c3 g b m v", "n", epsilon=1e-2),
        node("Mul", "n k", "s"),
        node("Add", "s t", "a"),
        node("Relu", "a", "r"),
        node("AveragePool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("MaxPool", "r", "q", kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", "p q", "pq", axis=1),
        node("GlobalAveragePool", "pq", "h"),
        node("Flatten", "h", "f"),
        node("Gemm", "f w3 b3", "y"),
    ]
    return model(
        nodes, ("N", 4, 6, 6), w1=random(4, 4, 3, 3), b1=random(4, 1, 1), w2=random(4, 4, 3, 3, seed=1),
        b2=random(4),
        g=random(4, seed=2), b=random(4, seed=3), m=random(4, seed=4), v=np.abs(random(4, seed=5)) + 0.1,
        k=random(4, 1, 1, seed=6), t=random(4, 1, 1, seed=7), w3=random(8, 8), b3=random(8),
    )  # fmt: skip


def attention_nodes(masked: list[Any]) -> list[Any]:
    return [
        *(node("Reshape", f"{part} heads", f"{part}4") for part in "qkv"),
        node("Transpose", "q4", "qt", perm=[0, 2, 1, 3]),
        node("Transpose", "k4", "kt", perm=[0, 2, 3, 1]),
        node("Transpose", "v4", "vt", perm=[0, 2, 1, 3]),
        node("Mul", "qt part", "qs"),
        node("MatMul", "qs kt", "s1"),
        node("Mul", "s1 scale", "s2"),
        *masked,
        node("Softmax", "s3", "p"),
        node("MatMul", "p vt", "o"),
        node("Transpose", "o", "o2", perm=[0, 2, 1, 3]),
        node("Reshape", "o2 joined", "o3"),
    ]


ATTENTION = {
    "heads": np.array([0, 0, 2, 4]),
    "joined": np.array([0, 0, 8]),
    "part": 0.8,
    "scale": 0.9,
    "mask": np.where(np.tri(5) > 0, 0, -0.5).astype(np.float32),
}


def transformer() -> Any:
    nodes = [
        node("Gather", "words x", "e"),
        node("Gather", "places at", "pos"),
        node("Add", "e pos", "x0"),
        node("ReduceMean", "x0", "mean", axes=[-1]),
        node("Sub", "x0 mean", "d"),
        node("Pow", "d two", "d2"),
        node("ReduceMean", "d2", "var", axes=[-1]),
        node("Add", "var eps", "ve"),
        node("Sqrt", "ve", "dev"),
        node("Div", "d dev", "n0"),
        node("Mul", "n0 g", "n1"),
        node("Add", "n1 b", "n"),
        node("MatMul", "n wq", "all0"),
        node("Add", "all0 bq", "all"),
        node("Split", "all thirds", "q k v", axis=2),
        *attention_nodes([node("Add", "s2 mask", "s3")]),
        node("MatMul", "o3 wo", "h"),
        node("Div", "h root", "u"),
        node("Erf", "u", "erf"),
        node("Add", "erf one", "erf1"),
        node("Mul", "h erf1", "h1"),
        node("Mul", "h1 half", "h2"),
        node("Slice", "h2 begin end axis", "y"),
    ]
    constants = {
        **ATTENTION, "words": random(9, 8), "places": random(9, 8, seed=1), "at": np.arange(2, 7), "two": 2.0,
        "eps": 0.05, "g": random(8), "b": random(8, seed=1), "wq": random(8, 24), "bq": random(24),
        "thirds": np.array([8, 8, 8]), "wo": random(8, 8, seed=3), "root": float(np.sqrt(2)), "one": 1.0,
        "half": 0.5,
        "begin": np.array([2]), "end": np.array([7]), "axis": np.array([2]),
    }  # fmt: skip
    return model(nodes, ("N", 5), opset=17, dtype="i64", **constants)


def by_where() -> Any:
    nodes = [
        *(node("Identity", "x", part) for part in "qkv"),
        *attention_nodes([node("Where", "seen s2 low", "s3")]),
        node("Relu", "o3", "y"),
    ]
    shown = (np.tri(5, k=1) > 0) & (np.eye(5)[::-1] == 0)
    given = {name: value for name, value in ATTENTION.items() if name != "mask"}
    return model(nodes, ("N", 5, 8), seen=shown, low=-np.inf, **given)


def elementwise() -> Any:
    nodes = [
        node("Sub", "x a", "s"),
        node("Div", "s b", "d"),
        node("LeakyRelu", "d", "l"),
        node("HardSigmoid", "d", "h"),
        node("Clip", "d low high", "c"),
        node("Add", "l h", "lh"),
        node("Add", "lh c", "z"),
        node("ReduceMean", "z", "m", axes=[1], keepdims=0),
        node("Tanh", "m", "y"),
    ]
    return model(nodes, ("N", 4, 8), opset=17, a=random(8), b=random(4, 8), low=-0.5, high=0.3)


def lstm() -> Any:
    nodes = [
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        node("LSTM", "t w r b", "all last", hidden_size=3),
        node("Squeeze", "last first", "y"),
    ]
    return model(
        nodes, ("N", 4, 5), w=random(1, 12, 5), r=random(1, 12, 3), b=random(1, 24), first=np.array([0])
    )


def gelu() -> Any:
    nodes = [
        node("Mul", "x r", "u"),
        node("Erf", "u", "e"),
        node("Add", "e i", "f"),
        node("Mul", "x f", "p"),
        node("Mul", "p h", "y"),
    ]
    return model(nodes, r=float(np.sqrt(0.5)), i=1.0, h=0.6)


def branch() -> Any:
    def graph(name: str, op: str) -> Any:
        return onnx.helper.make_graph(
            [node(op, "x", f"{name}_y")], name, [], [onnx.helper.make_empty_tensor_value_info(f"{name}_y")]
        )

    choice = node("If", "c", "z", then_branch=graph("yes", "Tanh"), else_branch=graph("no", "Relu"))
    return model([choice, node("Softsign", "z", "y")], c=np.array(True))


def padded() -> Any:
    pool = node("AveragePool", "x", "p", kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)
    return model([pool, node("Flatten", "p", "y")], ("N", 2, 4, 4))


def windows() -> Any:
    """Groups, gaps and four paddings that differ, and a convolution over one axis."""
    nodes = [
        node("Conv", "x w1 b1", "a", group=2, pads=[0, 1, 2, 1], dilations=[1, 2]),
        node("Conv", "a w2", "c", group=4, strides=[2, 1], auto_pad="SAME_LOWER"),
        node("Reshape", "c rows", "r"),
        node("Conv", "r w3 b3", "d", pads=[2, 0], dilations=[2], strides=[3]),
        node("BatchNormalization", "d g b m v", "n"),
        node("Flatten", "n", "y"),
    ]
    return model(
        nodes, ("N", 4, 7, 6), w1=random(4, 2, 3, 2), b1=random(4), w2=random(8, 1, 2, 2),
        rows=np.array([0, 8, -1]), w3=random(3, 8, 2), b3=random(3), g=random(3), b=random(3, seed=1),
        m=random(3, seed=2), v=np.abs(random(3, seed=3)) + 0.5,
    )  # fmt: skip


def swish() -> Any:
    nodes = [
        node("Add", "x three", "a"),
        node("Clip", "a zero five", "c"),
        node("Mul", "x c", "p"),
        node("Div", "p six", "y"),
    ]
    return model(nodes, ("N", 64), three=3.0, zero=0.0, five=3.5, six=6.0)


def silu() -> Any:
    return model([node("Tanh", "x", "t"), node("Sigmoid", "t", "s"), node("Mul", "x s", "y")])


def softmax() -> Any:
    return model([node("Softmax", "x", "s", axis=1), node("Relu", "s", "y")], ("N", 4, 8))


def softsign() -> Any:
    nodes = [
        node("Tanh", "x", "t"),
        node("Abs", "x", "a"),
        node("Add", "a one", "b"),
        node("Div", "t b", "y"),
    ]
    return model(nodes, one=1.0)


def prelu() -> Any:
    """By channels, and by places."""
    nodes = [node("PRelu", "x slope", "p"), node("PRelu", "p places", "q"), node("Flatten", "q", "y")]
    return model(nodes, ("N", 3, 4), slope=random(3, 1), places=random(4))


def pooled() -> Any:
    """The mean over the tokens that are not 1."""
    nodes = [
        node("Gather", "words x", "e"),
        node("Equal", "x one", "p"),
        node("Not", "p", "n"),
        node("Cast", "n", "c", to=1),
        node("Unsqueeze", "c last", "m"),
        node("Mul", "e m", "em"),
        node("ReduceSum", "em steps", "s", keepdims=0),
        node("ReduceSum", "m steps", "k", keepdims=0),
        node("Max", "k least", "l"),
        node("Div", "s l", "y"),
    ]
    given = {"one": np.array(1), "last": np.array([2]), "steps": np.array([1]), "least": 1e-9}
    return model(nodes, ("N", 6), dtype="i64", words=random(3, 8), **given)


def turned() -> Any:
    nodes = [
        node("Relu", "x", "r"),
        node("Transpose", "r", "a", perm=[0, 2, 3, 1]),
        node("Transpose", "a", "b", perm=[0, 2, 1, 3]),
        node("Tanh", "b", "c"),
        node("Flatten", "c", "y"),
    ]
    return model(nodes, ("N", 3, 3, 3))


def gemm() -> Any:
    return model([node("Gemm", "x w b", "y", alpha=0.5)], w=random(8, 8), b=random(8))


def square() -> Any:
    return model([node("MatMul", "x w", "y")], w=random(8, 8))


NETWORKS: dict[str, Callable[[], Any]] = {
    "branch": branch, "cnn": cnn, "elementwise": elementwise, "gelu": gelu, "gemm": gemm, "lstm": lstm,
    "padded": padded, "pooled": pooled, "prelu": prelu, "silu": silu, "softmax": softmax,
    "softsign": softsign, "square": square, "swish": swish,
    "transformer": transformer, "turned": turned, "where": by_where, "windows": windows,
}  # fmt: skip
# The importer itself refuses these: a mistake takes their form for another.
REFUSED = ("gelu", "gemm", "softsign")


def package(folder: Path, name: str, mistake: Mistake | None) -> ModuleType:
    """Copy the importer under another name, with a mistake."""
    shutil.copytree(PACKAGE, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    if mistake is not None:
        path = folder / name / mistake.file
        text = path.read_text()
        assert text.count(mistake.old) == 1, (
            f"{mistake.file} has {mistake.old!r} {text.count(mistake.old)} times"
        )
        path.write_text(text.replace(mistake.old, mistake.new))
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(f"{name}.importing")
    finally:
        sys.path.remove(str(folder))


def error_of(importer: ModuleType, network: str, folder: Path) -> float | None:
    """Return by how much a network is wrong, as a share of its largest logit; None if it is refused."""
    options = importer.Options()
    if network.endswith(".pt2"):
        found = importer.import_file(DATA / network, options)
        answers = np.load(DATA / "answers.npz")
        name = network.removesuffix(".pt2")
        x, wanted = answers["images" if name == "cnn" else "tokens"], answers[name]
    else:
        path = saved(folder, NETWORKS[network]())
        found = importer.import_file(path, options)
        if found.network is None:
            return None
        x = inputs_for(found)
        wanted = onnx.reference.ReferenceEvaluator(str(path)).run(None, {"x": x})[0]
    with np.errstate(all="ignore"):
        got = network_interpreter.compute(found.network.document, found.network.arrays(), x)
    return float(np.abs(got.reshape(wanted.shape) - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("network", [*NETWORKS, "cnn.pt2", "transformer.pt2"])
def test_the_importer_itself_makes_no_mistake(network: str, tmp_path: Path) -> None:
    from assay_import import importing

    error = error_of(importing, network, tmp_path)
    if network in REFUSED:
        assert error is None
    else:
        assert error is not None and error < ROUNDINGS / 10


@pytest.mark.parametrize("i", range(len(MISTAKES)), ids=[mistake.name for mistake in MISTAKES])
def test_a_mistake_changes_the_network(i: int, tmp_path: Path) -> None:
    importer = package(tmp_path, f"mistaken_import_{i}", MISTAKES[i])
    error = error_of(importer, MISTAKES[i].network, tmp_path)
    assert error is not None and not error <= ROUNDINGS, error  # or is not a number
