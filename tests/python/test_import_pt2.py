"""The importer on .pt2 files of torch.export: without torch, and without onnx."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_import.errors import Refused
from assay_import.importing import Import, import_file
from assay_import.options import Options
from imported import missing_of, ops_of, random, rules_of
from network_interpreter import compute, compute_folder, convolution
from pt2_archive import archive, argument, call
from worker_under_test import ROOT

DATA = ROOT / "tests/import/data"  # made by tests/import/make_models.py
Array = np.ndarray


def imported(folder: Path, nodes: list[Any] | None = None, weights: Any = None, **more: Any) -> Import:
    options = more.pop("options", {})
    path = folder / "model.pt2"
    path.write_bytes(archive(nodes, weights, **more))
    return import_file(path, Options(**options))


def result(found: Import, x: Array) -> Array:
    assert found.network, found.gaps
    return compute(found.network.document, found.network.arrays(), x)


def close(got: Array, wanted: Array) -> bool:
    return got.shape == wanted.shape and np.abs(got - wanted).max() <= 1e-6 * np.abs(wanted).max()


# What torch wrote.


def test_a_cnn_of_torch_computes_what_it_did(tmp_path: Path) -> None:
    answers = np.load(DATA / "answers.npz")
    found = import_file(DATA / "cnn.pt2", Options())
    assert ops_of(found) == [
        "convolution", "batch_norm", "relu", "max_pool", "convolution", "hard_swish", "convolution", "add",
        "reduce",
        "dropout", "linear",
    ]  # fmt: skip
    assert close(result(found, answers["images"]), answers["cnn"])
    assert found.network
    norm = found.network.document["nodes"][1]["attributes"]
    assert norm == {"epsilon": 1e-3, "momentum": 0.8}  # 1 - that of torch
    roles = {each["name"]: each["role"] for each in found.network.document["tensors"]}
    assert roles["norm.running_mean"] == roles["norm.running_var"] == "state"
    assert {name for name, role in roles.items() if role == "parameter"} == {
        "stem.weight", "norm.weight", "norm.bias", "block.0.weight", "block.0.bias", "block.2.weight",
        "block.2.bias",
        "head.weight", "head.bias",
    }  # fmt: skip
    assert found.notes == ["1 dropout for training: in inference, it changes nothing"]


def test_a_transformer_of_torch_computes_what_it_did(tmp_path: Path) -> None:
    answers = np.load(DATA / "answers.npz")
    found = import_file(DATA / "transformer.pt2", Options())
    assert close(result(found, answers["tokens"]), answers["transformer"])
    assert found.network
    document = found.network.document
    assert document["input"] == {"name": "tokens", "dtype": "i32", "shape": ["N", 6], "below": 11}
    assert document["per_position"] is True
    attention = [each for each in document["nodes"] if each["op"] == "attention"]
    assert attention[0]["attributes"] == {"causal": True, "scale": 0.0}
    assert rules_of(found) == {"position_table", "transposes"}
    # The table of tokens is the weight of the last layer, too, and is one tensor.
    readers = [each["op"] for each in document["nodes"] if "words.weight" in each["inputs"]]
    assert readers == ["embedding", "linear"]


def test_the_command_needs_no_onnx_and_writes_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    code = (
        "import sys; sys.modules['onnx'] = None; from assay_import.__main__ import main; main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, DATA / "transformer.pt2", "--out", tmp_path / "out", "--name", "tiny"],
        env={"PYTHONPATH": str(ROOT / "backends/python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "network.json",
        "provenance.json",
        "weights.safetensors",
    ]
    answers = np.load(DATA / "answers.npz")
    assert close(compute_folder(tmp_path / "out", answers["tokens"]), answers["transformer"])
    provenance = json.loads((tmp_path / "out/provenance.json").read_text())
    assert (provenance["format"], provenance["schema_version"], provenance["original"]) == (
        "pt2",
        "8.20",
        None,
    )
    assert provenance["producer"].startswith("torch 2.")
    description = json.loads((tmp_path / "out/network.json").read_text())["description"]
    assert description == "tiny: transformer.pt2, imported from pt2"


def test_two_imports_give_one_digest(tmp_path: Path) -> None:
    found = [import_file(DATA / "cnn.pt2", Options()).network for _ in range(2)]
    assert found[0] and found[1]
    assert found[0].text == found[1].text
    assert found[0].digest == found[1].digest


# Ops, each as torch computes it.


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


ELEMENTWISE = {
    "relu.default": (lambda x: np.maximum(x, 0), {}),
    "relu_.default": (lambda x: np.maximum(x, 0), {}),
    "silu.default": (lambda x: x * sigmoid(x), {}),
    "sigmoid.default": (sigmoid, {}),
    "tanh.default": (np.tanh, {}),
    "hardswish.default": (lambda x: x * np.clip(x + 3, 0, 6) / 6, {}),
    "hardsigmoid.default": (lambda x: np.clip(x + 3, 0, 6) / 6, {}),
    "hardtanh.default": (lambda x: np.clip(x, -1, 0.5), {"min_val": -1.0, "max_val": 0.5}),
    "relu6.default": (lambda x: np.clip(x, 0, 6), {}),
    "leaky_relu.default": (lambda x: np.where(x > 0, x, 0.2 * x), {"negative_slope": 0.2}),
    "elu.default": (lambda x: np.where(x > 0, x, 0.7 * np.expm1(x)), {"alpha": 0.7}),
    "softplus.default": (lambda x: np.log1p(np.exp(x)), {}),
    "neg.default": (lambda x: -x, {}),
    "pow.Tensor_Scalar": (lambda x: x * x, {"exponent": 2}),
    "add.Tensor": (lambda x: x + 1.5, {"other": 1.5}),
    "rsub.Scalar": (lambda x: 1.5 - x, {"other": 1.5}),
    "div.Tensor": (lambda x: x / 4, {"other": 4}),
    "softmax.int": (lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True), {"dim": 1}),
    "permute.default": (lambda x: x.transpose(0, 2, 1), {"dims": [0, 2, 1]}),
    "transpose.int": (lambda x: x.transpose(0, 2, 1), {"dim0": -1, "dim1": 1}),
    "slice.Tensor": (lambda x: x[:, 1:3], {"dim": 1, "start": 1, "end": 3}),
    "select.int": (lambda x: x[:, -1], {"dim": 1, "index": -1}),
    "flatten.using_ints": (lambda x: x.reshape(len(x), -1), {"start_dim": 1}),
    "mean.dim": (lambda x: x.mean(1), {"dim": [1]}),
    "sum.dim_IntList": (lambda x: x.sum(1, keepdims=True), {"dim": [1], "keepdim": True}),
    "amax.default": (lambda x: x.max(1), {"dim": [1]}),
    "unsqueeze.default": (lambda x: x[:, None], {"dim": 1}),
    "unflatten.int": (lambda x: x.reshape(-1, 4, 2, 3), {"dim": -1, "sizes": [2, 3]}),
    "clamp.default": (lambda x: np.minimum(x, 0.5), {"min": float("-inf"), "max": 0.5}),
    "clamp_max.default": (lambda x: np.minimum(x, 0.5), {"max": 0.5}),
    "clamp_min.default": (lambda x: np.maximum(x, -0.25), {"min": -0.25}),
    "clone.default": (lambda x: x, {}),
    "narrow.default": (lambda x: x[:, 1:3], {"dim": 1, "start": 1, "length": 2}),
}


@pytest.mark.parametrize("target", ELEMENTWISE)
def test_an_op_computes_what_torch_does(target: str, tmp_path: Path) -> None:
    wanted, arguments = ELEMENTWISE[target]
    nodes = [call("tanh.default", "t", self="%x"), call(target, "y", self="%t", **arguments)]
    # Logits of three dimensions at most, whatever the op makes.
    nodes += [call("flatten.using_ints", "f", self="%y", start_dim=1)]
    found = imported(tmp_path, nodes, {}, x=(None, 4, 6))
    x = random(3, 4, 6)
    y = wanted(np.tanh(x.astype(np.float64)))
    assert close(result(found, x), y.reshape(3, -1))


WINDOWS = {
    "max_pool2d.default": {"kernel_size": [2, 2], "stride": [2, 2]},
    "avg_pool2d.default": {"kernel_size": [2, 2]},
    "adaptive_avg_pool2d.default": {"output_size": [3, 3]},
}


@pytest.mark.parametrize("target", WINDOWS)
def test_a_pool_of_two_by_two(target: str, tmp_path: Path) -> None:
    nodes = [
        call(target, "y", self="%x", **WINDOWS[target]),
        call("flatten.using_ints", "f", self="%y", start_dim=1),
    ]
    x = random(2, 3, 6, 6)
    blocks = x.reshape(2, 3, 3, 2, 3, 2)
    wanted = blocks.max((3, 5)) if target.startswith("max") else blocks.astype(np.float64).mean((3, 5))
    assert close(result(imported(tmp_path, nodes, {}, x=(None, 3, 6, 6)), x), wanted.reshape(2, -1))


def lstm_nodes(**changes: Any) -> list[Any]:
    node = call(
        "lstm.input", "y h c",
        input="%x", hx=["%z", "%z"], params=["%p_wi", "%p_wh", "%p_bi", "%p_bh"], has_biases=True,
        num_layers=1, dropout=0.0, train=False, bidirectional=False, batch_first=True,
    )  # fmt: skip
    for each in node["inputs"]:
        if each["name"] in changes:
            each["arg"] = argument(changes[each["name"]])
    zeros = call("zeros.default", "z", size=[1, 3, 2])
    node["outputs"] = [{"as_tensor": {"name": name}} for name in ("y", "h", "c")]
    return [zeros, node, call("select.int", "last", self="%y", dim=1, index=-1)]


def lstm_weights() -> dict[str, Array]:
    return {"wi": random(8, 5), "wh": random(8, 2), "bi": random(8), "bh": random(8, seed=1)}


def test_an_lstm_adds_its_biases(tmp_path: Path) -> None:
    found = imported(tmp_path, lstm_nodes(), lstm_weights(), x=(None, 4, 5))
    weights, x = lstm_weights(), random(3, 4, 5).astype(np.float64)
    h = c = np.zeros((3, 2))
    for t in range(4):
        i, f, g, o = np.split(
            x[:, t] @ weights["wi"].T + h @ weights["wh"].T + weights["bi"] + weights["bh"], 4, 1
        )
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    assert close(result(found, x.astype(np.float32)), h)


def test_an_lstm_in_two_directions_is_missing(tmp_path: Path) -> None:
    (feature, *_) = missing_of(
        imported(tmp_path, lstm_nodes(bidirectional=True), lstm_weights(), x=(None, 4, 5))
    )
    assert feature.startswith("lstm: bidirectional")


# What is in the file: states, roles, in place.


def norm_nodes(training: bool) -> tuple[list[Any], dict[str, Array]]:
    weights = {"g": random(3), "b": random(3), "mean": random(3), "var": np.abs(random(3)) + 1}
    norm = call(
        "batch_norm.default", "n", input="%x", weight="%p_g", bias="%p_b", running_mean="%b_mean",
        running_var="%b_var", training=training, momentum=0.1, eps=1e-5, cudnn_enabled=False,
    )  # fmt: skip
    drop = call("dropout.default", "d", input="%n", p=0.3, train=training)
    return [norm, drop, call("mean.dim", "y", self="%d", dim=[2, 3])], weights


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_and_dropout_are_kept_and_a_note_says_their_mode(training: bool, tmp_path: Path) -> None:
    nodes, weights = norm_nodes(training)
    found = imported(tmp_path, nodes, weights, x=(None, 3, 4, 4), buffers=("mean", "var"))
    assert ops_of(found) == ["batch_norm", "dropout", "reduce"]
    assert (
        any("exported in eval mode: batch norm and dropout (2 nodes)" in note for note in found.notes)
        is not training
    )


def test_a_buffer_is_a_constant_and_a_parameter_is_trained(tmp_path: Path) -> None:
    nodes = [
        call("mul.Tensor", "m", self="%x", other="%b_mask"),
        call("add.Tensor", "y", self="%m", other="%p_shift"),
    ]
    found = imported(tmp_path, nodes, {"mask": random(8), "shift": random(8)}, buffers=("mask",))
    assert found.network
    assert {each["name"]: each["role"] for each in found.network.document["tensors"]} == {
        "mask": "constant",
        "shift": "parameter",
    }


def test_an_op_in_place_on_what_is_read_again_is_missing(tmp_path: Path) -> None:
    nodes = [
        call("tanh.default", "t", self="%x"),
        call("relu_.default", "r", self="%t"),
        call("add.Tensor", "y", self="%r", other="%t"),
    ]
    assert missing_of(imported(tmp_path, nodes, {})) == [
        "aten.relu_.default: of a value that is read elsewhere, too"
    ]


def test_an_op_in_place_on_a_view_is_missing(tmp_path: Path) -> None:
    nodes = [
        call("tanh.default", "t", self="%x"),
        call("slice.Tensor", "s", self="%t", dim=1, start=0, end=4),
        call("relu_.default", "r", self="%s"),
        call("cat.default", "y", tensors=["%r", "%t"], dim=1),
    ]
    assert missing_of(imported(tmp_path, nodes, {}))[0].startswith("aten.relu_.default")


def test_the_batch_of_a_static_export_is_found_and_freed(tmp_path: Path) -> None:
    nodes = [
        call("tanh.default", "t", self="%x"),
        call("view.default", "v", self="%t", size=[2, 12]),
        call("linear.default", "y", input="%v", weight="%p_w", bias=None),
    ]
    given = {"w": random(5, 12)}
    assert missing_of(imported(tmp_path, nodes, given, x=(2, 3, 4))) == [
        "reshape: a batch of 2 is written in it (--free-batch replaces it)"
    ]
    found = imported(tmp_path, nodes, given, x=(2, 3, 4), options={"free_batch": True})
    assert found.network and found.network.document["nodes"][1]["attributes"] == {"shape": [-1, 12]}


def test_weights_that_are_not_contiguous_keep_their_values(tmp_path: Path) -> None:
    data = archive()
    turned = random(8, 3)
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(path, "w") as made:
        for name in given.namelist():
            content = given.read(name)
            if name.endswith("weight_0"):
                content = b"\0" * 8 + turned.tobytes()
            if name.endswith("weights_config.json"):
                config = json.loads(content)
                meta = config["config"]["fc.weight"]["tensor_meta"]
                meta["strides"] = [{"as_int": 1}, {"as_int": 3}]
                meta["storage_offset"] = {"as_int": 2}
                content = json.dumps(config).encode()
            made.writestr(name, content)
    found = import_file(path, Options())
    assert found.network
    assert np.array_equal(found.network.arrays()["fc.weight"], turned.T)


def test_gaps_name_the_module(tmp_path: Path) -> None:
    nodes = [call("sin.default", "s", self="%x"), call("cos.default", "y", self="%s")]
    found = imported(tmp_path, nodes, {})
    assert [(gap.feature, gap.first) for gap in found.gaps] == [
        ("aten.cos.default", "y_module (y)"),
        ("aten.sin.default", "s_module (s)"),
    ]


@pytest.mark.parametrize("slopes", [1, 4])
def test_a_prelu_has_one_slope_or_one_for_each_channel(slopes: int, tmp_path: Path) -> None:
    nodes = [
        call("prelu.default", "p", self="%x", weight="%p_w"),
        call("flatten.using_ints", "y", self="%p", start_dim=1),
    ]
    weight, x = random(slopes), random(3, 4, 6)
    found = imported(tmp_path, nodes, {"w": weight}, x=(None, 4, 6))
    wanted = np.where(x > 0, x, x * weight[:, None])
    assert close(result(found, x), wanted.reshape(3, -1))


CONVOLUTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "conv2d.default": (
        {"groups": 3, "stride": [1, 2], "padding": [1, 0], "dilation": [2, 1]},
        {"groups": 3, "stride": [1, 2], "padding": [1, 0, 1, 0], "dilation": [2, 1]},
    ),
    "conv2d.padding": (
        {"groups": 3, "padding": "same", "dilation": [1, 3]},
        {"groups": 3, "stride": 1, "padding": [0, 1, 1, 2], "dilation": [1, 3]},
    ),
    "conv2d.padding valid": ({"groups": 3, "padding": "valid"}, {"groups": 3, "stride": 1, "padding": 0}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_keeps_its_groups_gaps_and_sides(name: str, tmp_path: Path) -> None:
    given, wanted = CONVOLUTIONS[name]
    weight, x = random(6, 1, 2, 2), random(2, 3, 8, 8)
    nodes = [
        call(name.split()[0], "c", input="%x", weight="%p_w", bias=None, **given),
        call("flatten.using_ints", "y", self="%c", start_dim=1),
    ]
    found = imported(tmp_path, nodes, {"w": weight}, x=(None, 3, 8, 8))
    assert found.network and found.network.document["nodes"][0]["attributes"] == wanted
    y = convolution(x.astype(np.float64), weight.astype(np.float64), **wanted)
    assert close(result(found, x), y.reshape(2, -1))


def test_a_convolution_over_sequences_is_one_over_images_of_one_row(tmp_path: Path) -> None:
    weight, x = random(4, 3, 3), random(2, 3, 9)
    nodes = [
        call("conv1d.default", "c", input="%x", weight="%p_w", bias=None, stride=[2], padding=[1]),
        call("flatten.using_ints", "y", self="%c", start_dim=1),
    ]
    found = imported(tmp_path, nodes, {"w": weight}, x=(None, 3, 9))
    y = convolution(
        x[:, :, None].astype(np.float64), weight[:, :, None].astype(np.float64), stride=2,
        padding=[0, 1, 0, 1],
    )  # fmt: skip
    assert close(result(found, x), y.reshape(2, -1))


def two_inputs(path: Path, nodes: list[Any], weights: dict[str, Array], **more: Any) -> Path:
    """Write an archive with a second input, m, of the type of x."""
    path.write_bytes(archive(nodes, weights, **more))
    with zipfile.ZipFile(path) as given:
        files = {name: given.read(name) for name in given.namelist()}
    found = json.loads(files["m/models/model.json"])["graph_module"]
    found["signature"]["input_specs"].append({"user_input": {"arg": {"as_tensor": {"name": "m"}}}})
    found["graph"]["tensor_values"]["m"] = found["graph"]["tensor_values"]["x"]
    files["m/models/model.json"] = json.dumps(
        {**json.loads(files["m/models/model.json"]), "graph_module": found}
    ).encode()
    with zipfile.ZipFile(path, "w") as made:
        for name, data in files.items():
            made.writestr(name, data)
    return path


@pytest.mark.parametrize("is_truth", [False, True])
def test_the_mask_of_padding_is_found(is_truth: bool, tmp_path: Path) -> None:
    mask = [
        call("unsqueeze.default", "m1", self="%m", dim=1),
        call("unsqueeze.default", "m2", self="%m1", dim=2),
    ]
    if is_truth:
        mask += [call("to.dtype", "k", self="%m2", dtype=12)]
    else:
        mask += [
            call("to.dtype", "m3", self="%m2", dtype=7),
            call("rsub.Scalar", "m4", self="%m3", other=1.0),
            call("mul.Tensor", "k", self="%m4", other=-3.4028234663852886e38),
        ]
    nodes = [
        *mask,
        call("embedding.default", "e", weight="%p_w", indices="%x"),
        call("unsqueeze.default", "h", self="%e", dim=1),
        call("scaled_dot_product_attention.default", "a", query="%h", key="%h", value="%h", attn_mask="%k"),
        call("squeeze.dim", "y", self="%a", dim=1),
    ]
    path = two_inputs(tmp_path / "model.pt2", nodes, {"w": random(9, 4)}, x=(None, 6), dtype="int64")
    found = import_file(path, Options(bound={"m": "not_equal(x, 0)"}))
    assert "padding_mask" in ops_of(found)
    x = np.array([[3, 5, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6]])
    e = random(9, 4)[x].astype(np.float64)
    scores = np.where((x != 0)[:, None], e @ e.swapaxes(1, 2) / 2, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    assert close(result(found, x), weights / weights.sum(-1, keepdims=True) @ e)


KEPT = {
    "ne": [call("ne.Scalar", "k", self="%x", other=0)],
    "logical_not": [
        call("eq.Scalar", "p", self="%x", other=0), call("logical_not.default", "k", self="%p")
    ],
    "bitwise_not": [
        call("eq.Scalar", "p", self="%x", other=0), call("bitwise_not.default", "k", self="%p")
    ],
    "bitwise_and": [
        call("ne.Scalar", "p", self="%x", other=0), call("bitwise_and.Tensor", "k", self="%p", other="%p")
    ],
}  # fmt: skip


@pytest.mark.parametrize("way", KEPT)
@pytest.mark.parametrize("is_added", [False, True])
def test_the_mask_of_compared_tokens_is_found(way: str, is_added: bool, tmp_path: Path) -> None:
    mask = "%k2"
    nodes = [
        *KEPT[way],
        call("unsqueeze.default", "k1", self="%k", dim=1),
        call("unsqueeze.default", "k2", self="%k1", dim=2),
    ]
    if is_added:
        mask = "%m3"
        nodes += [
            call("zeros_like.default", "z", self="%k2", dtype=7),
            call("logical_not.default", "h", self="%k2"),
            call("masked_fill.Scalar", "m3", self="%z", mask="%h", value=-3.4028234663852886e38),
        ]
    nodes += [
        call("embedding.default", "e", weight="%p_w", indices="%x"),
        call("unsqueeze.default", "u", self="%e", dim=1),
        call("scaled_dot_product_attention.default", "a", query="%u", key="%u", value="%u", attn_mask=mask),
        call("squeeze.dim", "y", self="%a", dim=1),
    ]
    found = imported(tmp_path, nodes, {"w": random(9, 4)}, x=(None, 6), dtype="int64")
    assert "padding_mask" in ops_of(found), found.gaps
    x = np.array([[3, 5, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6]])
    e = random(9, 4)[x].astype(np.float64)
    scores = np.where((x != 0)[:, None], e @ e.swapaxes(1, 2) / 2, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    assert close(result(found, x), weights / weights.sum(-1, keepdims=True) @ e)


def test_two_inputs_are_refused_with_the_remedy(tmp_path: Path) -> None:
    path = two_inputs(tmp_path / "model.pt2", [call("relu.default", "y", self="%x")], {})
    with pytest.raises(Refused, match=r"2 inputs \(x, m\).*--bind"):
        import_file(path, Options())
