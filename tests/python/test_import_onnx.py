"""The importer on ONNX files: what is folded, bound, pruned, kept, trained, and refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_import.__main__ import main
from assay_import.errors import Refused
from assay_import.importing import import_file
from assay_import.options import Options, read_shape
from assay_worker.tensors import read_tensors
from imported import (
    ROUNDINGS,
    agrees,
    difference,
    imported,
    missing_of,
    model,
    node,
    onnx_or_skip,
    ops_of,
    packages_with_onnx,
    random,
    saved,
)
from network_interpreter import compute_folder
from worker_under_test import ROOT

onnx = onnx_or_skip()


def small(**changes: Any) -> Any:
    """A convolution, a batch norm, a pool and a classifier with softmax."""
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c g0 b0 m0 v0", "n", epsilon=1e-4),
        node("Relu", "n", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "p", "f"),
        node("Gemm", "f w2 b2", "logits", transB=1),
        node("Softmax", "logits", "y"),
    ]
    values = {
        "w": random(4, 3, 3, 3), "b": random(4), "g0": random(4, seed=1), "b0": random(4, seed=2),
        "m0": random(4, seed=3), "v0": np.abs(random(4, seed=4)) + 0.5, "w2": random(5, 36), "b2": random(5),
    }  # fmt: skip
    return model(nodes, ("N", 3, 6, 6), **{**values, **changes})


def run(folder: Path, *arguments: str) -> int:
    return main([str(folder / "model.onnx"), "--out", str(folder / "out"), *arguments])


def folder_of(tmp_path: Path, made: Any, *arguments: str) -> Path:
    """Import a model as the command does; return the folder."""
    saved(tmp_path, made)
    (tmp_path / "out").mkdir()
    assert run(tmp_path, *arguments) == 0
    return tmp_path / "out"


def test_the_folder_has_a_network_its_weights_where_it_is_from_and_the_file(tmp_path: Path) -> None:
    out = folder_of(tmp_path, small())
    assert sorted(path.name for path in out.iterdir()) == [
        "network.json",
        "original.onnx",
        "provenance.json",
        "weights.safetensors",
    ]
    document = json.loads((out / "network.json").read_text())
    assert document["schema"] == "assay-network/1"
    assert document["input"] == {"name": "x", "dtype": "f32", "shape": ["N", 3, 6, 6]}
    assert [each["op"] for each in document["nodes"]] == [
        "convolution", "batch_norm", "relu", "max_pool", "reshape", "linear"
    ]  # fmt: skip
    assert document["nodes"][4]["attributes"] == {"shape": [-1, 36]}
    assert document["output"] == "logits"
    assert document["per_position"] is False
    roles = {each["name"]: each["role"] for each in document["tensors"]}
    assert roles == dict.fromkeys(["w", "b", "g0", "b0", "w2", "b2"], "parameter") | {
        "m0": "state",
        "v0": "state",
    }
    assert set(read_tensors(out / "weights.safetensors")) == set(roles)
    provenance = json.loads((out / "provenance.json").read_text())
    assert provenance["original"] == {
        "input": "x",
        "output": "logits",
        "batch": 0,
        "drawn": [],
        "neutral": [],
    }
    assert provenance["cut"] == "softmax"
    assert (out / "original.onnx").read_bytes() == (tmp_path / "model.onnx").read_bytes()


def test_two_imports_give_the_same_bytes(tmp_path: Path) -> None:
    bytes_of = []
    for name in "ab":
        (tmp_path / name).mkdir()
        out = folder_of(tmp_path / name, small())
        bytes_of.append(
            [(out / file).read_bytes() for file in ("network.json", "weights.safetensors", "provenance.json")]
        )
    assert bytes_of[0] == bytes_of[1]


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder_of(tmp_path, small())
    assert run(tmp_path) == 2
    assert "not an empty folder" in capsys.readouterr().err


def test_the_network_computes_what_the_file_does_for_every_batch(tmp_path: Path) -> None:
    found = imported(tmp_path, small())
    for batch in (1, 2, 7):
        assert difference(found, tmp_path / "model.onnx", batch=batch) < 1e-6


# Folding.


def test_shapes_that_are_computed_are_folded(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n axes", "n1"),
        node("Concat", "n1 rest", "to", axis=0),
        node("Reshape", "x to", "f"),
        node("MatMul", "f w", "y"),
    ]
    constants = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1]), "w": random(12, 3)}
    found = agrees(tmp_path, model(nodes, ("N", 3, 4), **constants))
    assert ops_of(found) == ["reshape", "linear"]
    assert found.provenance["folded"] == {"Concat": 1, "Gather": 1, "Shape": 1, "Unsqueeze": 1}


def test_a_constant_of_weights_is_computed(tmp_path: Path) -> None:
    nodes = [node("Mul", "w k", "w2"), node("MatMul", "x w2", "y")]
    found = agrees(tmp_path, model(nodes, w=random(8, 3), k=2.0))
    assert ops_of(found) == ["linear"]


def test_a_large_result_is_not_computed(tmp_path: Path) -> None:
    nodes = [
        node("Expand", "o to", "large"),
        node("ReduceSum", "large", "s", keepdims=0),
        node("Mul", "x s", "y"),
    ]
    found = imported(tmp_path, model(nodes, o=1.0, to=np.array([1 << 13, 1 << 13])))
    assert missing_of(found) == ["Expand: of constants, too large to be computed here"]


def branches(condition: bool) -> Any:
    def graph(name: str, op: str) -> Any:
        inner = [node(op, "x", f"{name}_a"), node("Identity", f"{name}_a", f"{name}_y")]
        return onnx.helper.make_graph(
            inner, name, [], [onnx.helper.make_empty_tensor_value_info(f"{name}_y")]
        )

    choice = node("If", "c", "z", then_branch=graph("yes", "Tanh"), else_branch=graph("no", "Relu"))
    return model([choice, node("Identity", "z", "y")], c=np.array(condition))


@pytest.mark.parametrize(("condition", "op"), [(True, "tanh"), (False, "relu")])
def test_a_branch_whose_condition_is_known_is_taken(condition: bool, op: str, tmp_path: Path) -> None:
    assert ops_of(agrees(tmp_path, branches(condition), output="y")) == [op]


def test_a_branch_that_depends_on_the_input_is_missing(tmp_path: Path) -> None:
    made = branches(True)
    made.graph.node[0].input[0] = "d"
    made.graph.node.insert(0, node("ReduceMax", "x", "top", keepdims=0))
    made.graph.node.insert(1, node("Cast", "top", "d", to=9))
    found = imported(tmp_path, made)
    assert missing_of(found) == ["Cast", "If: its condition depends on the input"]


# The batch.


def baked(first: int = 1, batch: int | str = 1) -> Any:
    nodes = [node("Relu", "x", "r"), node("Reshape", "r to", "f"), node("MatMul", "f w", "y")]
    return model(nodes, (batch, 3, 4), to=np.array([first, 12]), w=random(12, 5))


def test_a_batch_that_is_written_in_a_reshape_is_missing(tmp_path: Path) -> None:
    (feature,) = missing_of(imported(tmp_path, baked()))
    assert feature == "reshape: a batch of 1 is written in it (--free-batch replaces it)"


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 8])
def test_free_batch_replaces_it_whatever_it_is(batch: int, tmp_path: Path) -> None:
    found = imported(tmp_path, baked(batch, batch), free_batch=True)
    assert found.provenance["original"]["batch"] == batch
    assert ops_of(found) == ["relu", "reshape", "linear"]
    assert found.network and found.network.document["nodes"][1]["attributes"] == {"shape": [-1, 12]}
    assert any("it is free now" in note for note in found.notes)


def test_a_constant_that_depends_on_the_batch_is_refused(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "s", end=1),
        node("Cast", "s", "f", to=1),
        node("Mul", "x f", "p"),
        node("Relu", "p", "y"),
    ]
    with pytest.raises(Refused, match="depends on the batch"):
        imported(tmp_path, model(nodes))


def test_a_class_token_for_each_sample_is_missing(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "n", end=1),
        node("Concat", "n rest", "to", axis=0),
        node("Expand", "token to", "tokens"),
        node("Concat", "tokens x", "y", axis=1),
    ]
    made = model(nodes, ("N", 4, 8), rest=np.array([1, 8]), token=random(1, 1, 8))
    assert missing_of(imported(tmp_path, made)) == [
        "concat: with a constant for each sample, such as a class token"
    ]


def test_a_sum_over_the_batch_is_refused(tmp_path: Path) -> None:
    nodes = [node("ReduceSum", "x axes", "y", keepdims=0)]
    with pytest.raises(Refused, match="the logits of a network are"):
        imported(tmp_path, model(nodes, ("N", 4, 8), axes=np.array([0])))


def test_free_extents_must_be_given(tmp_path: Path) -> None:
    made = model(
        [node("GlobalAveragePool", "x", "g"), node("Flatten", "g", "y")], ("N", 3, "height", "width")
    )
    with pytest.raises(Refused, match="--shape x=N,3,224,224"):
        imported(tmp_path, made)
    found = imported(tmp_path, made, shapes=dict([read_shape("x=N,3,8,6")]))
    assert found.network and found.network.document["input"]["shape"] == ["N", 3, 8, 6]


@pytest.mark.parametrize("text", ["x", "x=", "x=N,-3", "x=N,3.5", "x=N,,3", "=N,3", "x=N,N", f"x=N,{10**12}"])
def test_shapes_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        read_shape(text)


def test_a_shape_that_does_not_fit_the_file_is_refused(tmp_path: Path) -> None:
    for text in ("x=N,3", "x=4,3,6,6", "other=N,3"):
        with pytest.raises(Refused):
            imported(tmp_path, small(), shapes=dict([read_shape(text)]))


def test_images_of_another_size_than_in_the_file_are_read_if_its_nodes_allow(tmp_path: Path) -> None:
    pooled = [node("Conv", "x w", "c"), node("GlobalAveragePool", "c", "p"), node("Flatten", "p", "y")]
    made = model(pooled, x=[1, 3, 6, 6], w=random(5, 3, 3, 3))
    found = imported(tmp_path, made, shapes=dict([read_shape("x=N,3,9,8")]))
    assert found.network and found.network.document["input"]["shape"] == ["N", 3, 9, 8]
    assert imported(tmp_path, made, shapes=dict([read_shape("x=N,4,9,8")])).network is None


# Inputs and outputs.


def two_inputs() -> Any:
    made = model([node("Mul", "x scale", "p"), node("Add", "p shift", "y")], shift=random(8))
    scale = onnx.helper.make_tensor_value_info("scale", 1, ["N", 1])
    made.graph.input.append(scale)
    return made


def test_a_second_input_must_be_bound(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"2 inputs \(x, scale\).*--bind"):
        imported(tmp_path, two_inputs())


@pytest.mark.parametrize(("text", "value"), [("ones", 1.0), ("zeros", 0.0), ("2.5", 2.5)])
def test_a_bound_input_has_this_value(text: str, value: float, tmp_path: Path) -> None:
    found = imported(tmp_path, two_inputs(), bound={"scale": text}, no_lift=frozenset({"identity"}))
    assert found.network
    (scale,) = [a for name, a in found.network.arrays().items() if name.startswith("scale")]
    assert scale.shape == (1, 1)  # one row for the whole batch
    assert scale.item() == value
    assert found.provenance["bound"] == {"scale": text}


def test_a_file_is_bound_and_a_pickle_is_not(tmp_path: Path) -> None:
    np.save(tmp_path / "good.npy", np.full((1, 1), 3, np.float32))
    found = imported(tmp_path, two_inputs(), bound={"scale": str(tmp_path / "good.npy")})
    assert found.network
    np.save(tmp_path / "bad.npy", np.array([{}], object), allow_pickle=True)
    for name in ("bad.npy", "none.npy"):
        with pytest.raises(Refused, match="cannot be read"):
            imported(tmp_path, two_inputs(), bound={"scale": str(tmp_path / name)})


@pytest.mark.parametrize("text", ["__import__('os')", "one", "1+1", "[1]", "nan", "inf", "1e999"])
def test_a_value_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(Refused):
        imported(tmp_path, two_inputs(), bound={"scale": text})


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "pointer of Git LFS"),
        (b"\x1f\x8b\x08", "compressed by gzip"),
        ("pipe", "is not a file"),
        (np.array([[1, np.nan]], "f4"), r"at \[0, 1\] the value nan"),
        (np.array([[-3.4e38, 1]], "f4"), "for a mask, -1e9 does"),
    ],
    ids=["pointer", "gzip", "pipe", "NaN", "too large"],
)
def test_a_bound_file_that_is_no_use_is_refused(written: Any, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "scale.npy"
    if isinstance(written, bytes):
        file.write_bytes(written)
    elif isinstance(written, str):
        os.mkfifo(file)
    else:
        np.save(file, written)
    with pytest.raises(Refused, match=reason):
        imported(tmp_path, two_inputs(), bound={"scale": str(file)})


@pytest.mark.parametrize(
    ("nodes", "constants", "reason"),
    [
        ([node("Add", "x c", "y")], {"c": random(8) * np.float32(1e20)}, r"constant 'c' has at \[0\]"),
        ([node("MatMul", "x c", "y")], {"c": np.full((8, 3), np.inf, "f4")}, r"tensor 'c' has at \[0, 0\]"),
        ([node("Mul", "x c", "y")], {"c": np.float32(np.nan)}, "constant 'c' has at"),
        ([node("Elu", "x", "y", alpha=float("nan"))], {}, "has alpha = nan"),
        ([node("HardSigmoid", "x", "y", alpha=float("inf"))], {}, "has alpha = inf"),
    ],
    ids=["constant", "weight", "scalar", "attribute", "infinite attribute"],
)
def test_values_that_no_backend_may_be_given_are_named(
    nodes: list[Any], constants: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match=reason):
        imported(tmp_path, model(nodes, **constants))


@pytest.mark.parametrize("bounds", [(-1.0, None), (None, 2.0), (-3.4e38, 2.0), (-1.0, float("inf"))])
def test_a_clip_may_have_one_bound(bounds: tuple[float | None, float | None], tmp_path: Path) -> None:
    given = {name: np.float32(value) for name, value in zip("lm", bounds, strict=True) if value is not None}
    words = " ".join(name if name in given else "-" for name in "lm")
    made = imported(tmp_path, model([node("Clip", f"x {words}", "y")], **given))
    assert made.network
    attributes = made.network.document["nodes"][0]["attributes"]
    low, high = (value if value is not None and abs(value) < 1e30 else None for value in bounds)
    assert attributes["least"] == (low if low is not None else -1e30)
    assert attributes["most"] == high if high is not None else 9e29 < attributes["most"] < 1e30


def test_the_named_output_leaves_the_rest_out(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", "x w", "h"),
        node("Relu", "h", "r"),
        node("MatMul", "r w2", "y"),
        node("Tanh", "h", "z"),
    ]
    made = model(nodes, out="y z", w=random(8, 4), w2=random(4, 100))
    found = agrees(tmp_path, made, output="z")
    assert ops_of(found) == ["linear", "tanh"]
    assert found.provenance["pruned"]["nodes"] == 2
    assert found.provenance["pruned"]["share_of_flops"] > 0.9
    assert any("other outputs of the file are left out: y (2 nodes" in note for note in found.notes)


def test_an_output_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="'nothing'"):
        imported(tmp_path, small(), output="nothing")


def test_a_gap_behind_the_output_does_not_count(tmp_path: Path) -> None:
    made = model([node("Relu", "x", "y"), node("Sin", "y", "z")], out="y z")
    assert ops_of(agrees(tmp_path, made, output="y")) == ["relu"]


def test_tokens_become_i32_below_the_rows_of_their_table(tmp_path: Path) -> None:
    made = model(
        [node("Gather", "w x", "y")],
        ("N", 6),
        dtype="i64",
        w=random(11, 4),
    )
    found = agrees(tmp_path, made)
    assert found.network
    assert found.network.document["input"] == {"name": "x", "dtype": "i32", "shape": ["N", 6], "below": 11}
    assert found.network.document["per_position"] is True


@pytest.mark.parametrize("axis", [1, -1])
def test_a_final_log_softmax_is_cut(axis: int, tmp_path: Path) -> None:
    found = agrees(tmp_path, model([node("Tanh", "x", "t"), node("LogSoftmax", "t", "y", axis=axis)]))
    assert ops_of(found) == ["tanh"]
    assert found.provenance["cut"] == "log_softmax"
    assert found.provenance["original"]["output"] == "t"


def test_further_dimensions_of_one_are_removed_from_the_logits(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "c"), node("GlobalAveragePool", "c", "g"), node("Softmax", "g", "y", axis=1)]
    found = agrees(tmp_path, model(nodes, ("N", 3, 5, 5), opset=12, w=random(4, 3, 1, 1)))
    assert ops_of(found) == ["convolution", "reduce"]
    assert found.provenance["original"]["output"] == "g"


@pytest.mark.parametrize("shape", [("N",), ("N", 1), ("N", 3, 4, 5), ("N", 2, 3, 4, 5)])
def test_what_are_no_logits_is_refused(shape: tuple[int | str, ...], tmp_path: Path) -> None:
    with pytest.raises(Refused, match="--output"):
        imported(tmp_path, model([node("Relu", "x", "y")], shape))


# Roles.


def test_constants_are_trained_only_if_asked(tmp_path: Path) -> None:
    made = model([node("Mul", "x k", "p"), node("MatMul", "p w", "y")], k=random(8), w=random(8, 3))
    for trained, role in ((False, "constant"), (True, "parameter")):
        found = imported(tmp_path, made, train_constants=trained)
        assert found.network
        assert {each["name"]: each["role"] for each in found.network.document["tensors"]} == {
            "k": role,
            "w.T": "parameter",
        }
        assert any("k (--train-constants" in note for note in found.notes) is not trained


def test_filled_weights_are_drawn_and_the_file_says_which_they_are(tmp_path: Path) -> None:
    nodes = [
        node("ConstantOfShape", "ws", "w", value=onnx.numpy_helper.from_array(np.array([0.5], np.float32))),
        node("ConstantOfShape", "bs", "b"),
        node("MatMul", "x w", "p"),
        node("Add", "p b", "y"),
    ]
    out = folder_of(tmp_path, model(nodes, ws=np.array([8, 3]), bs=np.array([3])))
    assert read_tensors(out / "weights.safetensors") == {}
    provenance = json.loads((out / "provenance.json").read_text())
    assert provenance["original"]["drawn"] == [
        {"file": "w", "tensor": "w.T", "transpose": True},
        {"file": "b", "tensor": "b", "transpose": False},
    ]


def test_missing_batch_norms_and_dropouts_are_mentioned(tmp_path: Path) -> None:
    nodes = [
        node("Conv", f"{a} w{i}", b, pads=[1] * 4)
        for i, (a, b) in enumerate([("x", "a"), ("a", "b"), ("b", "c")])
    ]
    nodes += [node("Dropout", "c rate", "d"), node("GlobalAveragePool", "d", "g"), node("Flatten", "g", "y")]
    weights = {f"w{i}": random(3, 3, 3, 3, seed=i) for i in range(3)}
    found = agrees(tmp_path, model(nodes, ("N", 3, 5, 5), rate=0.25, **weights))
    assert found.notes[0].startswith("no batch norm in a network with 3 convolutions")
    assert found.notes[1].startswith("1 dropout for training")
    assert found.network and found.network.document["nodes"][3]["attributes"] == {"rate": 0.25}


CONVOLUTIONS: dict[str, tuple[list[int], dict[str, Any], dict[str, Any]]] = {
    "depthwise": ([6, 1, 3, 3], {"group": 3}, {"stride": 1, "padding": 0, "groups": 3}),
    "gaps": ([4, 3, 2, 2], {"dilations": [2, 2], "strides": [1, 2]},
             {"stride": [1, 2], "padding": 0, "dilation": 2}),
    "four paddings": ([4, 3, 3, 3], {"pads": [0, 1, 2, 1]}, {"stride": 1, "padding": [0, 1, 2, 1]}),
    "more below": ([4, 3, 2, 2], {"auto_pad": "SAME_UPPER"}, {"stride": 1, "padding": [0, 0, 1, 1]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_keeps_its_groups_gaps_and_sides(name: str, tmp_path: Path) -> None:
    weight, given, wanted = CONVOLUTIONS[name]
    nodes = [node("Conv", "x w", "c", **given), node("Flatten", "c", "y")]
    found = agrees(tmp_path, model(nodes, ("N", 3, 6, 7), w=random(*weight)))
    assert found.network and found.network.document["nodes"][0]["attributes"] == wanted


POOLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ceil mode": (
        node("MaxPool", "x", "p", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        {"kernel": 3, "stride": 2, "padding": [0, 0, 1, 0]},
    ),
    "oblong": (
        node("MaxPool", "x", "p", kernel_shape=[3, 2], strides=[1, 2], pads=[0, 1, 2, 0]),
        {"kernel": [3, 2], "stride": [1, 2], "padding": [0, 1, 2, 0]},
    ),
    "padding that does not count": (
        node("AveragePool", "x", "p", kernel_shape=[3, 3], pads=[1] * 4),
        {"kernel": 3, "stride": 1, "padding": 1, "count_padding": False},
    ),
    "padding that counts": (
        node("AveragePool", "x", "p", kernel_shape=[3, 3], pads=[1, 0, 1, 0], count_include_pad=1),
        {"kernel": 3, "stride": 1, "padding": [1, 0, 1, 0]},
    ),
    "a last window that is not full": (
        node("AveragePool", "x", "p", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, count_include_pad=1),
        {"kernel": 2, "stride": 2, "padding": [0, 0, 0, 1], "count_padding": False},
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_keeps_its_sides_and_its_divisor(name: str, tmp_path: Path) -> None:
    given, wanted = POOLS[name]
    found = agrees(tmp_path, model([given, node("Flatten", "p", "y")], ("N", 3, 6, 7)))
    assert found.network and found.network.document["nodes"][0]["attributes"] == wanted


@pytest.mark.parametrize(
    "given, slopes, ops",
    [
        ((3, 1, 1), [3], ["prelu"]),
        ((1, 3, 1, 1), [3], ["prelu"]),
        ((1,), [1], ["prelu"]),
        ((), [1], ["prelu"]),
        ((3, 4, 1), [3, 4, 1], ["relu", "subtract", "multiply", "add"]),
        ((5,), [5], ["relu", "subtract", "multiply", "add"]),
    ],
)
def test_a_prelu_trains_its_slopes(
    given: tuple[int, ...], slopes: list[int], ops: list[str], tmp_path: Path
) -> None:
    nodes = [node("PRelu", "x w", "p"), node("Flatten", "p", "y")]
    found = agrees(tmp_path, model(nodes, ("N", 3, 4, 5), w=random(*given)))
    assert ops_of(found) == [*ops, "reshape"]
    assert found.network
    (slope,) = found.network.document["tensors"]
    assert (slope["name"], slope["shape"], slope["role"]) == ("w.slope", slopes, "parameter")


def test_a_local_response_norm_has_its_size_and_numbers(tmp_path: Path) -> None:
    nodes = [node("LRN", "x", "n", size=3, alpha=0.5, beta=0.6, bias=2.0), node("Flatten", "n", "y")]
    found = imported(tmp_path, model(nodes, ("N", 5, 3, 2)))
    assert ops_of(found) == ["local_response_norm", "reshape"]
    # onnx.reference goes over as many channels as there are samples.
    assert difference(found, tmp_path / "model.onnx", batch=5) < ROUNDINGS


def test_a_pool_over_sequences_is_one_over_images_of_one_row(tmp_path: Path) -> None:
    nodes = [
        node("MaxPool", "x", "m", kernel_shape=[3], strides=[2], pads=[1, 0]),
        node("AveragePool", "m", "a", kernel_shape=[2]),
        node("Flatten", "a", "y"),
    ]
    found = agrees(tmp_path, model(nodes, ("N", 3, 9)))
    assert [each for each in ops_of(found) if each != "reshape"] == ["max_pool", "average_pool"]


def test_a_convolution_over_sequences_is_one_over_images_of_one_row(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x w b", "c", strides=[2], pads=[1, 2]),
        node("BatchNormalization", "c g h m v", "n"),
        node("Relu", "n", "r"),
        node("Conv", "r u", "d", group=4, dilations=[2]),
        node("Flatten", "d", "y"),
    ]
    weights = {"w": random(4, 3, 3), "b": random(4), "u": random(4, 1, 2), "g": random(4), "h": random(4)}
    norm = {"m": random(4, seed=1), "v": np.abs(random(4, seed=2)) + 0.5}
    found = agrees(tmp_path, model(nodes, ("N", 3, 9), **weights, **norm))
    assert [each for each in ops_of(found) if each != "reshape"] == [
        "convolution", "batch_norm", "relu", "convolution"
    ]  # fmt: skip
    assert found.network
    shapes = {each["name"]: each["shape"] for each in found.network.document["tensors"]}
    assert shapes["w.row"] == [4, 3, 1, 3]


# What is missing.

GAPS = [
    (node("Conv", "x w", "y", pads=[3, 0, 0, 0]), {"w": random(4, 3, 3, 3)},
     "convolution: pads as large as the kernel"),
    (node("Conv", "x w", "y"), {"w": random(4, 3, 3, 3, 3)}, "convolution: 3-d"),
    (node("AveragePool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, ceil_mode=1,
          count_include_pad=1), {}, "average_pool: ceil mode with padding that counts"),
    (node("MaxPool", "x", "y", kernel_shape=[2, 2], pads=[0, 0, 2, 0]), {},
     "max_pool: pads as large as the kernel"),
    (node("MaxPool", "x", "y", kernel_shape=[2, 2], dilations=[2, 2]), {}, "max_pool: dilated"),
    (node("LRN", "x", "y", size=4), {}, "LRN: 4 dimensions, a size of 4"),
    (node("Relu", "x", "y", domain="com.acme"), {}, "com.acme.Relu"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "constants", "feature"), GAPS, ids=[gap[2] for gap in GAPS])
def test_a_gap_has_op_and_feature(
    given: Any, constants: dict[str, Any], feature: str, tmp_path: Path
) -> None:
    nodes = [given, node("GlobalAveragePool", "y", "g"), node("Flatten", "g", "z")]
    made = model(nodes, ("N", 3, 6, 6), out="z", **constants)
    made.opset_import.append(onnx.helper.make_opsetid("com.acme", 1))
    found = imported(tmp_path, made)
    assert missing_of(found) == [feature]
    assert found.gaps[0].first == given.name


def test_all_gaps_are_printed_at_once_with_their_share_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [
        node("Mod", "x x", "a", fmod=1),
        node("Conv", "a w", "b", group=3, pads=[3] * 4),
        node("Mod", "b b", "c", fmod=1),
        node("GlobalAveragePool", "c", "g"),
        node("Flatten", "g", "y"),
    ]
    saved(tmp_path, model(nodes, ("N", 3, 6, 6), w=random(3, 1, 3, 3)))
    (tmp_path / "out").mkdir()
    assert run(tmp_path) == 2
    printed = capsys.readouterr()
    lines = [line.split() for line in printed.out.splitlines()]
    assert lines[0] == ["missing", "nodes", "FLOPs", "first", "node"]
    assert " ".join(lines[1][:7]) == "convolution: pads as large as the kernel"
    assert lines[1][7:] == ["1", "92.9%", "Conv_b"]
    assert lines[2][:2] == ["Mod", "2"]
    assert lines[2][3] == "Mod_a"
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert list((tmp_path / "out").iterdir()) == []


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, small())
    assert main([str(path), "--dry-run"]) == 0
    assert "digest" in capsys.readouterr().out
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


def test_json_has_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, model([node("Mod", "x x", "y", fmod=1)], ("N", 3, 4, 4)))
    assert main([str(path), "--dry-run", "--json"]) == 2
    printed = json.loads(capsys.readouterr().out)
    assert printed["missing"][0]["feature"] == "Mod"
    assert printed["digest"] is None


@pytest.mark.parametrize(
    "arguments",
    [["--no-lift", "nothing"], ["--shape", "x"], ["--bind", "x"], ["--wrong"], ["--output"], []],
)
def test_wrong_options_are_refused_in_one_line(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path, small())
    assert main([str(path), *arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ")
    assert printed.count("\n") == 1


# External data.


def external(folder: Path, location: str = "weights.bin") -> Path:
    weights = random(8, 3)
    (folder / "weights.bin").write_bytes(b"\0" * 64 + weights.tobytes())
    made = model([node("MatMul", "x w", "y")], w=weights)
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "64"), ("length", str(weights.nbytes))):
        tensor.external_data.add(key=key, value=value)
    return saved(folder, made)


def test_external_weights_are_read_and_put_into_the_original(tmp_path: Path) -> None:
    external(tmp_path)
    (tmp_path / "out").mkdir()
    assert run(tmp_path) == 0
    assert np.array_equal(read_tensors(tmp_path / "out/weights.safetensors")["w.T"], random(8, 3).T)
    (entry,) = json.loads((tmp_path / "out/provenance.json").read_text())["source"]["external"]
    assert (entry["name"], entry["bytes"]) == ("weights.bin", 64 + 96)
    original = onnx.load(tmp_path / "out/original.onnx", load_external_data=False)
    assert np.array_equal(onnx.numpy_helper.to_array(original.graph.initializer[0]), random(8, 3))


# Both directions.


def test_what_assay_writes_as_onnx_is_read_as_the_same_op(tmp_path: Path) -> None:
    """Each op that assay_onnx writes without parts comes back with its attributes."""
    from assay_onnx.ops import OPS, Writer
    from assay_worker.program import Graph, Node, Value

    unary = {
        "relu": {}, "sigmoid": {}, "tanh": {}, "softplus": {}, "softsign": {}, "selu": {}, "hard_swish": {},
        "silu": {},
        "gelu": {"approximate": "tanh"}, "elu": {"alpha": 0.5}, "leaky_relu": {"slope": 0.25},
        "clamp": {"least": -0.5, "most": 2.0}, "hard_sigmoid": {"alpha": 0.125, "beta": 0.5}, "softmax": {},
        "transpose": {"permutation": [0, 2, 1]}, "slice": {"axis": 1, "begin": 1, "end": 3},
        "reduce": {"kind": "max", "axes": [1]},
    }  # fmt: skip
    for op, attributes in unary.items():
        assert op in OPS
        values = {
            name: Value(name, "f32", (4, 3, 4), role)
            for name, role in (("x", "input"), ("y", "intermediate"))
        }
        written = Node("y", op, ("x",), ("y",), attributes)
        writer = Writer(Graph("one", values, (written,), {}, {}), {})
        writer.write(written)
        made = model([*writer.nodes, node("Tanh", "y", "z")], ("N", 3, 4), out="z")
        made.graph.initializer.extend(
            onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in writer.constants.items()
        )
        found = imported(tmp_path, made)
        assert found.network, (op, found.gaps)
        back = found.network.document["nodes"][0]
        assert (back["op"], back["attributes"]) == (op, attributes)


@pytest.mark.parametrize("change", ["", "rows", "zeros"])
def test_an_embedding_that_assay_wrote_reads_the_table_itself(change: str, tmp_path: Path) -> None:
    from assay_onnx.ops import Writer
    from assay_worker.program import Graph, Node, Value

    table = random(9, 4)
    values = {"x": Value("x", "i32", (3, 6), "input"), "w": Value("w", "f32", table.shape, "parameter")}
    writer = Writer(Graph("one", values, (), {}, {}), {"w": table})
    writer.write(Node("y", "embedding", ("x", "w"), ("y",), {"sparse_gradient": False}))
    held = {name: np.asarray(value) for name, value in writer.constants.items()}
    for name, value in held.items():
        if change == "rows" and value.size == 1 and value == 9:
            held[name] = np.int32(7)
        if change == "zeros" and value.ndim == 2:
            held[name] = value + 1
    made = model(writer.nodes, ("N", 6))
    made.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in held.items()
    )
    found = imported(tmp_path, made)
    if change:
        assert found.network is None  # other tokens read another row
        return
    assert ops_of(found) == ["embedding"]
    assert found.network and found.network.document["input"]["below"] == 9
    assert np.array_equal(next(iter(found.network.arrays().values())), table)


def test_the_command_runs_in_an_environment_with_onnx(tmp_path: Path) -> None:
    path = saved(tmp_path, small())
    (tmp_path / "out").mkdir()
    folder = packages_with_onnx()
    assert folder is not None
    python = folder.parents[2] / "bin/python"
    done = subprocess.run(
        [python, "-m", "assay_import", path, "--out", tmp_path / "out"],
        env={"PYTHONPATH": str(ROOT / "backends/python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    x = random(2, 3, 6, 6)
    assert compute_folder(tmp_path / "out", x).shape == (2, 5)


def test_without_onnx_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, small())
    monkeypatch.setitem(sys.modules, "assay_import.onnx_source", None)
    with pytest.raises(Refused, match="assay setup import"):
        import_file(path, Options())
