"""Each rule of the importer: it finds its parts in every order, and nothing that is only like them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_import.errors import Refused
from assay_import.importing import Import
from imported import (
    ROUNDINGS,
    agrees,
    distance,
    imported,
    inputs_for,
    missing_of,
    model,
    node,
    onnx_or_skip,
    ops_of,
    random,
    rules_of,
)

onnx = onnx_or_skip()

ROOT_HALF = math.sqrt(0.5)
ROOT = math.sqrt(2 / math.pi)

# GELU by erf: the nodes from x to y, with the constants r = sqrt(1/2), s = sqrt(2), h = 1/2, i = 1, t = 2.
GELUS = {
    "half of the product": "Mul x r u; Erf u e; Add e i f; Mul x f p; Mul p h y",
    "half of x first": "Div x s u; Erf u e; Add e i f; Mul x h p; Mul p f y",
    "half of the curve first": "Mul r x u; Erf u e; Add i e f; Mul h f p; Mul p x y",
    "divided by two": "Div x s u; Erf u e; Add i e f; Mul f x p; Div p t y",
}
TANHS = {
    "cube by power": "Pow x c q; Mul q k a; Add x a b; Mul b z u; Tanh u e; Add e i f; Mul x f p; Mul p h y",
    "cube by products": "Mul x x q; Mul q x w; Mul k w a; Add a x b; Mul z b u; Tanh u e; Add i e f; "
    "Mul h x p; Mul f p y",
    "x taken out": "Mul x x q; Mul q k a; Add i a b; Mul x z v; Mul v b u; Tanh u e; Add e i f; "
    "Mul f h p; Mul p x y",
}
NUMBERS = {
    "r": ROOT_HALF,
    "s": math.sqrt(2),
    "h": 0.5,
    "i": 1.0,
    "t": 2.0,
    "c": 3.0,
    "k": 0.044715,
    "z": ROOT,
    "three": 3.0,
    "six": 6.0,
    "zero": 0.0,
    "sixth": 1 / 6,
}


def nodes_of(text: str, **attributes: dict[str, Any]) -> list[Any]:
    """Make the nodes of "Op operands result; ..."."""
    found = []
    for part in text.split(";"):
        op, *names = part.split()
        found.append(node(op, " ".join(names[:-1]), names[-1], **attributes.get(op, {})))
    return found


def network(text: str, shape: tuple[int | str, ...] = ("N", 8), **constants: Any) -> Any:
    nodes = nodes_of(text)
    return model(nodes, shape, **{**only_read(nodes, NUMBERS), **constants})


def only_read(nodes: list[Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that nodes read and do not make."""
    made = {name for each in nodes for name in each.output}
    read = {name for each in nodes for name in each.input}
    return {name: value for name, value in values.items() if name in read - made}


@pytest.mark.parametrize("text", GELUS.values(), ids=GELUS.keys())
def test_gelu_by_erf_is_found_in_every_order(text: str, tmp_path: Path) -> None:
    assert ops_of(agrees(tmp_path, network(text))) == ["gelu"]


@pytest.mark.parametrize("text", TANHS.values(), ids=TANHS.keys())
def test_gelu_by_tanh_is_found_in_every_order(text: str, tmp_path: Path) -> None:
    found = agrees(tmp_path, network(text))
    assert ops_of(found) == ["gelu"]
    assert found.network and found.network.document["nodes"][0]["attributes"] == {"approximate": "tanh"}


@pytest.mark.parametrize(
    ("number", "value"),
    [("r", 0.7), ("h", 0.51), ("i", 1.01), ("h", -0.5)],
)
def test_gelu_with_another_number_is_none(number: str, value: float, tmp_path: Path) -> None:
    text = "Mul x r u; Erf u e; Add e i f; Mul x f p; Mul p h y"
    assert missing_of(imported(tmp_path, network(text, **{number: value}))) == ["Erf"]


def test_gelu_of_two_values_is_none(tmp_path: Path) -> None:
    text = "Relu x o; Mul o r u; Erf u e; Add e i f; Mul x f p; Mul p h y"
    assert missing_of(imported(tmp_path, network(text))) == ["Erf"]


def test_gelu_whose_curve_is_read_elsewhere_is_none(tmp_path: Path) -> None:
    text = "Mul x r u; Erf u e; Add e i f; Mul x f p; Mul p h g; Add g e y"
    assert missing_of(imported(tmp_path, network(text))) == ["Erf"]


def test_no_lift_leaves_the_parts(tmp_path: Path) -> None:
    text = GELUS["divided by two"]
    assert missing_of(imported(tmp_path, network(text), no_lift=frozenset({"gelu"}))) == ["Erf"]


SWISHES = {
    "clip times x over six": "Add x three a; Clip a zero six b; Mul x b p; Div p six y",
    "a sixth of the clip first": "Add three x a; Clip a zero six b; Mul b sixth p; Mul p x y",
    "clip over six, then times x": "Add x three a; Clip a zero six b; Div b six p; Mul x p y",
}


@pytest.mark.parametrize("text", SWISHES.values(), ids=SWISHES.keys())
def test_hard_swish_of_a_clip_is_found_in_every_order(text: str, tmp_path: Path) -> None:
    assert ops_of(agrees(tmp_path, network(text))) == ["hard_swish"]


@pytest.mark.parametrize("text", ["Abs x a; Add a i b; Div x b y", "Abs x a; Add i a b; Div x b y"])
def test_softsign_of_its_parts_is_found(text: str, tmp_path: Path) -> None:
    assert ops_of(agrees(tmp_path, network(text, i=1.0))) == ["softsign"]


def test_softsign_of_two_values_or_with_another_number_stays_in_parts(tmp_path: Path) -> None:
    for text, one in (
        ("Abs x a; Add a i b; Relu x r; Div r b y", 1.0),
        ("Abs x a; Add a i b; Div x b y", 1.5),
    ):
        assert missing_of(imported(tmp_path, network(text, i=one))) == ["Abs"]


def test_hard_swish_of_hard_sigmoid_is_found_only_with_its_slope(tmp_path: Path) -> None:
    for alpha, ops in ((1 / 6, ["hard_swish"]), (0.2, ["hard_sigmoid", "multiply"])):
        nodes = [node("HardSigmoid", "x", "a", alpha=alpha, beta=0.5), node("Mul", "a x", "y")]
        assert ops_of(agrees(tmp_path, model(nodes))) == ops


@pytest.mark.parametrize("change", [{"three": 2.5}, {"six": 5.0}, {"zero": -1.0}])
def test_hard_swish_with_another_number_stays_in_parts(change: dict[str, float], tmp_path: Path) -> None:
    made = network("Add x three a; Clip a zero six b; Mul x b p; Div p six y", **change)
    assert "hard_swish" not in ops_of(agrees(tmp_path, made))


def test_hard_sigmoid_of_a_clip_is_found(tmp_path: Path) -> None:
    assert ops_of(agrees(tmp_path, network("Add x three a; Clip a zero six b; Div b six y"))) == [
        "hard_sigmoid"
    ]


@pytest.mark.parametrize("order", ["x s", "s x"])
def test_silu_is_found_in_both_orders(order: str, tmp_path: Path) -> None:
    assert ops_of(agrees(tmp_path, model([node("Sigmoid", "x", "s"), node("Mul", order, "y")]))) == ["silu"]


def test_sigmoid_of_another_value_is_no_silu(tmp_path: Path) -> None:
    made = network("Tanh x o; Sigmoid o s; Mul x s y")
    assert ops_of(agrees(tmp_path, made)) == ["tanh", "sigmoid", "multiply"]


NORM = "ReduceMean x m; Sub x m d; Pow d t q; ReduceMean q v; Add v eps w; Sqrt w r2; Div d r2 n"
NORMS = {
    "as old exporters write it": f"{NORM}; Mul n scale g; Add g shift y",
    "scale and shift on the left": f"{NORM}; Mul scale n g; Add shift g y",
    "the square as a product": NORM.replace("Pow d t q", "Mul d d q") + "; Mul n scale g; Add g shift y",
    "times the inverse root": NORM.replace("Div d r2 n", "Reciprocal r2 z2; Mul z2 d n")
    + "; Mul n scale g; Add g shift y",
    "the root as a power": NORM.replace("Sqrt w r2", "Pow w h r2") + "; Mul n scale g; Add g shift y",
    "only a scale": f"{NORM}; Mul n scale y",
    "neither": NORM.replace("Div d r2 n", "Div d r2 y"),
}


def norm(text: str, axis: int = -1, eps: float = 1e-3, square: float = 2.0) -> Any:
    nodes = nodes_of(text, ReduceMean={"axes": [axis]})
    given = {"scale": random(8), "shift": random(8, seed=3), "eps": eps, "t": square, "h": 0.5}
    return model(nodes, ("N", 5, 8), opset=17, **only_read(nodes, given))


@pytest.mark.parametrize("text", NORMS.values(), ids=NORMS.keys())
def test_layer_norm_is_found_in_every_form(text: str, tmp_path: Path) -> None:
    found = agrees(tmp_path, norm(text))
    assert ops_of(found) == ["layer_norm"]
    assert found.network
    assert found.network.document["nodes"][0]["attributes"]["epsilon"] == pytest.approx(1e-3)


def test_a_mean_over_another_dimension_is_no_layer_norm(tmp_path: Path) -> None:
    assert "Sqrt" in missing_of(imported(tmp_path, norm(NORMS["only a scale"], axis=1)))


def test_another_power_than_the_square_is_no_layer_norm(tmp_path: Path) -> None:
    assert "Sqrt" in missing_of(imported(tmp_path, norm(NORMS["neither"], square=3.0)))


def test_matmul_and_bias_become_linear(tmp_path: Path) -> None:
    made = network("MatMul x w p; Add b p y", ("N", 5, 8), w=random(8, 3), b=random(3))
    found = agrees(tmp_path, made)
    assert ops_of(found) == ["linear"]
    assert found.network and found.network.document["tensors"][0]["shape"] == [3, 8]


def test_a_bias_of_one_number_for_each_position_stays_an_add(tmp_path: Path) -> None:
    made = network("MatMul x w p; Add p b y", ("N", 3, 8), w=random(8, 3), b=random(3, 1))
    assert ops_of(agrees(tmp_path, made)) == ["linear", "add"]


def test_a_product_that_is_read_twice_keeps_its_bias_apart(tmp_path: Path) -> None:
    made = network("MatMul x w p; Add p b s; Mul p s y", w=random(8, 3), b=random(3))
    assert ops_of(agrees(tmp_path, made)) == ["linear", "add", "multiply"]


def test_without_the_lift_a_product_runs_in_parts(tmp_path: Path) -> None:
    made = network("MatMul x w y", ("N", 5, 8), w=random(8, 3))
    found = agrees(tmp_path, made, no_lift=frozenset({"linear"}))
    assert ops_of(found) == ["reshape", "matmul", "reshape"]


CLASSES = "; GlobalAveragePool {} g; Flatten g y"


def test_a_bias_after_a_convolution_becomes_its_own(tmp_path: Path) -> None:
    for shape, ops in (
        ((4, 1, 1), ["convolution"]),
        ((1, 4, 1, 1), ["convolution"]),
        ((4, 1), ["convolution", "add"]),
    ):
        text = "Conv x w c; Add b c a" + CLASSES.format("a")
        made = network(text, ("N", 3, 6, 6), w=random(4, 3, 3, 3), b=random(*shape))
        assert ops_of(agrees(tmp_path, made)) == [*ops, "reduce"]


SCALE = "BatchNormalization x g0 b0 m0 v0 n; Mul k n p; Add p t2 a" + CLASSES.format("a")


def scaled(text: str, k: tuple[int, ...] = (4, 1, 1)) -> Any:
    variance = np.abs(random(4, seed=5)) + 0.5
    given = {"g0": random(4), "b0": random(4, seed=1), "m0": random(4, seed=2), "v0": variance}
    return network(text, ("N", 4, 5, 5), **given, k=random(*k, seed=6), t2=random(4, 1, 1, seed=7))


def test_the_scale_layer_of_caffe_joins_its_batch_norm(tmp_path: Path) -> None:
    found = agrees(tmp_path, scaled(SCALE))
    assert ops_of(found) == ["batch_norm", "reduce"]
    lifts = [each for each in found.provenance["lifts"] if each["rule"] == "batch_norm_scale"]
    assert lifts == [{"rule": "batch_norm_scale", "node": "a", "took": ["n", "p"]}]


def test_a_scale_for_each_place_does_not_join(tmp_path: Path) -> None:
    found = agrees(tmp_path, scaled(SCALE, k=(4, 5, 5)))
    assert ops_of(found) == ["batch_norm", "multiply", "add", "reduce"]


HEADS = (
    "Reshape x s4 r; Transpose r q; Reshape x s4 r2; Transpose r2 v; Reshape x s4 r3; Transpose r3 k0; "
    "Transpose k0 k"
)
SHAPE = {"s4": np.array([0, 0, 2, 4])}
DONE = "; Transpose o o2; Reshape o2 s3 y"
SCALED = 0.5  # 1 / sqrt(4)
ATTENTIONS = {
    "scores divided": "MatMul q k s; Div s two s2; Softmax s2 w; MatMul w v o",
    "scores multiplied": "MatMul q k s; Mul half s s2; Softmax s2 w; MatMul w v o",
    "queries scaled": "Mul q half q2; MatMul q2 k s2; Softmax s2 w; MatMul w v o",
    "both scaled by a root": "Mul q root q2; Mul k root k2; MatMul q2 k2 s2; Softmax s2 w; MatMul w v o",
    "mask after the scale": "MatMul q k s; Mul s half s2; Add s2 mask s3; Softmax s3 w; MatMul w v o",
    "mask on the left": "MatMul q k s; Mul s half s2; Add mask s2 s3; Softmax s3 w; MatMul w v o",
}


def attention(text: str, **constants: Any) -> Any:
    text = f"{HEADS}; {text}{DONE}".replace("Add s2 mask s3", "Add s2 mask sm").replace(
        "Add mask s2 s3", "Add mask s2 sm"
    )
    text = text.replace("Softmax s3", "Softmax sm")
    nodes = nodes_of(text)
    for each in nodes:
        order = [0, 1, 3, 2] if each.output[0] == "k" else [0, 2, 1, 3]
        if each.op_type == "Transpose":
            each.attribute.append(onnx.helper.make_attribute("perm", order))
    given = {
        "two": 2.0,
        "half": SCALED,
        "root": math.sqrt(SCALED),
        "s3": np.array([0, 0, 8]),
        **SHAPE,
        **constants,
    }
    return model(nodes, ("N", 5, 8), **only_read(nodes, given))


@pytest.mark.parametrize("text", ATTENTIONS.values(), ids=ATTENTIONS.keys())
def test_attention_is_found_in_every_form(text: str, tmp_path: Path) -> None:
    mask = np.where(np.eye(5) > 0, 0, random(5, 5))
    found = agrees(tmp_path, attention(text, mask=mask))
    assert ops_of(found) == ["reshape", "reshape", "reshape", "attention", "reshape"]
    assert found.network
    attributes = found.network.document["nodes"][3]["attributes"]
    assert attributes == {"causal": False, "scale": 0.0}


@pytest.mark.parametrize("low", [-np.inf, -1e9, float(np.finfo(np.float32).min)])
def test_a_mask_of_the_keys_after_each_query_is_causal(low: float, tmp_path: Path) -> None:
    mask = np.where(np.tri(5) > 0, 0, low).astype(np.float32)
    found = agrees(tmp_path, attention(ATTENTIONS["mask after the scale"], mask=mask))
    assert found.network
    (node_of,) = [each for each in found.network.document["nodes"] if each["op"] == "attention"]
    assert node_of["attributes"]["causal"] is True
    assert len(node_of["inputs"]) == 3


@pytest.mark.parametrize("diagonal", [-1, 1])
def test_a_mask_of_other_keys_is_not_causal(diagonal: int, tmp_path: Path) -> None:
    mask = np.where(np.tri(5, k=diagonal) + np.eye(5)[:, ::-1] > 0, 0, -1e9).astype(np.float32)
    found = agrees(tmp_path, attention(ATTENTIONS["mask after the scale"], mask=mask))
    assert found.network
    (node_of,) = [each for each in found.network.document["nodes"] if each["op"] == "attention"]
    assert node_of["attributes"]["causal"] is False
    assert len(node_of["inputs"]) == 4


def test_a_mask_by_where_is_added(tmp_path: Path) -> None:
    text = "MatMul q k s; Mul s half s2; Where seen s2 low sw; Softmax sw w; MatMul w v o"
    found = agrees(tmp_path, attention(text, seen=np.tri(5) > 0, low=-np.inf))
    (node_of,) = [each for each in found.network.document["nodes"] if each["op"] == "attention"]  # type: ignore[union-attr]
    assert node_of["attributes"]["causal"] is True


def test_scores_that_are_read_elsewhere_are_no_attention(tmp_path: Path) -> None:
    text = "MatMul q k s; Mul s half s2; Softmax s2 w; MatMul w v o1; MatMul s2 v o3; Add o1 o3 o"
    found = agrees(tmp_path, attention(text))
    assert "attention" not in ops_of(found)
    assert "softmax" in ops_of(found)


TOKENS = {"dtype": "i64"}


def table(indices: Any, rows: int = 6) -> Any:
    nodes = nodes_of("Gather words x e; Gather places at p; Add e p y")
    return model(
        nodes, ("N", 6), dtype="i64", words=random(9, 4), places=random(rows, 4, seed=2), at=np.array(indices)
    )


@pytest.mark.parametrize(
    ("indices", "rows", "ops"),
    [
        (np.arange(6), 6, ["embedding", "add"]),
        (np.arange(6)[None], 6, ["embedding", "reshape", "add"]),
        (np.arange(2, 8), 9, ["embedding", "slice", "add"]),
        (np.zeros((1, 6), np.int64), 2, ["embedding", "slice", "reshape", "add"]),
    ],
)
def test_a_table_of_positions_is_read_without_indices(
    indices: Any, rows: int, ops: list[str], tmp_path: Path
) -> None:
    found = agrees(tmp_path, table(indices, rows))
    assert ops_of(found) == ops
    assert found.network
    roles = {each["name"]: each["role"] for each in found.network.document["tensors"]}
    assert roles == {"words": "parameter", "places": "parameter"}


def test_positions_in_another_order_are_no_table(tmp_path: Path) -> None:
    found = imported(tmp_path, table(np.array([0, 2, 1, 3, 4, 5])))
    assert "position_table" not in rules_of(found)


# The mask of padding: an input bound to not_equal(x, 0), with the nodes from m to the scores' mask k.
MASKS = {
    "as BERT has it": (
        "i64",
        "Unsqueeze m a1 m1; Unsqueeze m1 a2 m2; Cast m2 m3; Sub one m3 m4; Mul m4 low k",
    ),
    "in floats": ("f32", "Unsqueeze m a12 m2; Sub one m2 m4; Mul low m4 k"),
    "expanded to all queries": (
        "i64",
        "Unsqueeze m a12 m2; Expand m2 full m5; Cast m5 m3; Sub one m3 m4; Mul m4 low k",
    ),
    "chosen by truth values": ("i64", "Unsqueeze m a12 m2; Equal m2 none m3; Where m3 low zero k"),
}


OF_TOKENS = "of the tokens"  # a mask without an input of its own


def masked(dtype: str, text: str, by: str = "Add s2 k s5", to: int = 1, **constants: Any) -> Any:
    nodes = nodes_of(text, Cast={"to": to})
    scores = nodes_of(
        "Gather words x e; Reshape e s4 h; Transpose h q; Transpose h kt; MatMul q kt s; Mul s half s2; "
        f"{by}; Softmax s5 w; MatMul w q o; Transpose o o2; Reshape o2 s3 y"
    )
    for each in scores:
        order = [0, 2, 3, 1] if each.output[0] == "kt" else [0, 2, 1, 3]
        if each.op_type == "Transpose":
            each.attribute.append(onnx.helper.make_attribute("perm", order))
    given = {
        "words": random(9, 8), "half": 0.5, "s4": np.array([0, 0, 2, 4]),
        "s3": np.array([0, 0, 8]),
        "a1": np.array([1]), "a2": np.array([2]), "a12": np.array([1, 2]), "one": 1.0, "zero": 0.0,
        "low": -1e5,
        "full": np.array([1, 1, 6, 1]), "none": np.array(0), **constants,
    }  # fmt: skip
    made = model([*nodes, *scores], ("N", 6), dtype="i64", **only_read([*nodes, *scores], given))
    if dtype != OF_TOKENS:
        kind = {"i64": 7, "f32": 1}[dtype]
        made.graph.input.append(onnx.helper.make_tensor_value_info("m", kind, ["N", 6]))
    return made


def mask_of(found: Import) -> list[dict[str, Any]]:
    assert found.network, found.gaps
    return [each for each in found.network.document["nodes"] if each["op"] == "padding_mask"]


@pytest.mark.parametrize(("dtype", "text"), MASKS.values(), ids=MASKS.keys())
def test_the_mask_of_an_input_that_is_bound_to_not_equal_is_that_of_padding(
    dtype: str, text: str, tmp_path: Path
) -> None:
    found = imported(tmp_path, masked(dtype, text), bound={"m": "not_equal(x, 0)"})
    (mask,) = mask_of(found)
    assert (mask["inputs"], mask["attributes"]) == (["x"], {"padding": 0})
    assert ops_of(found) == ["embedding", "reshape", "padding_mask", "attention", "reshape"]
    x = inputs_for(found)
    assert (x == 0).any() and (x != 0).any(axis=1).all()
    fed = {"x": x, "m": (x != 0).astype(np.float32 if dtype == "f32" else np.int64)}
    assert distance(found, tmp_path / "model.onnx", fed) < ROUNDINGS


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("Unsqueeze m a12 m2; Cast m2 k", "Where k s2 low s5"),
        ("Unsqueeze m a12 m2; Equal m2 none k", "Where k low s2 s5"),
    ],
)
def test_scores_that_are_chosen_by_the_mask_are_masked(text: str, by: str, tmp_path: Path) -> None:
    found = imported(tmp_path, masked("i64", text, by, to=9), bound={"m": "not_equal(x, 0)"})
    assert len(mask_of(found)) == 1
    x = inputs_for(found)
    assert distance(found, tmp_path / "model.onnx", {"x": x, "m": (x != 0).astype(np.int64)}) < ROUNDINGS


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        (MASKS["in floats"][1], {"low": -1.0}),  # which hides no key
        (MASKS["in floats"][1], {"one": 2.0}),  # which moves the scores of tokens
        (
            "Unsqueeze m a1 m1; Sub one m1 m4; Mul m4 low m5; Unsqueeze m5 a3 k",
            {"a3": np.array([3])},
        ),  # of queries
        ("Unsqueeze m a12 m2; Mul m2 low k", {}),  # which hides the tokens
    ],
)
def test_what_is_another_mask_is_missing(text: str, constants: dict[str, Any], tmp_path: Path) -> None:
    found = imported(tmp_path, masked("f32", text, **constants), bound={"m": "not_equal(x, 0)"})
    assert "not_equal" in missing_of(found)


@pytest.mark.parametrize(
    "text",
    [
        "Equal x pad p; Unsqueeze p a12 m2; Where m2 low zero k",
        "Equal pad x p; Not p n; Unsqueeze n a12 m2; Cast m2 m3; Sub one m3 m4; Mul m4 low k",
    ],
)
def test_the_mask_of_tokens_that_are_compared_with_a_number_is_that_of_padding(
    text: str, tmp_path: Path
) -> None:
    found = agrees(tmp_path, masked(OF_TOKENS, text, pad=np.array(3)))
    (mask,) = mask_of(found)
    assert (mask["inputs"], mask["attributes"]) == (["x"], {"padding": 3})
    assert ops_of(found) == ["embedding", "reshape", "padding_mask", "attention", "reshape"]


def pooled(count: str, weight: str = "m", **constants: Any) -> Any:
    """Return the mean of embeddings over the tokens that are not 3. count: nodes from the mask m to l."""
    given = {
        "words": random(9, 8), "pad": np.array(3), "a1": np.array([1]), "a2": np.array([2]), "least": 1e-9,
        "most": 1e30, "wide": np.array([1, 1, 8]), "two": 2.0, **constants,
    }  # fmt: skip
    nodes = nodes_of(
        f"Gather words x e; Equal x pad p; Not p n; Cast n c; Unsqueeze c a2 m; Expand m wide w; {count}; "
        f"Mul e {weight} em; ReduceSum em a1 s; Div s l y",
        Cast={"to": 1},
        ReduceSum={"keepdims": 0},
    )
    return model(nodes, ("N", 6), dtype="i64", **only_read(nodes, given))


@pytest.mark.parametrize(
    ("count", "weight"),
    [
        ("ReduceSum m a1 k; Max k least l", "m"),
        ("ReduceSum w a1 k; Clip k least most l", "w"),
        ("ReduceSum w a1 k; Max least k l", "m"),
    ],
)
def test_a_mean_over_the_tokens_that_count_is_a_mean_pool(count: str, weight: str, tmp_path: Path) -> None:
    found = agrees(tmp_path, pooled(count, weight))
    assert ops_of(found) == ["embedding", "padding_mask", "mean_pool"]


def test_a_mean_of_scores_is_no_mean_pool(tmp_path: Path) -> None:
    nodes = nodes_of(
        "Gather words x e; Equal x pad p; Not p n; Cast n m; Mul e m em; ReduceSum em a1 s; "
        "ReduceSum m a1 k; Max k least l; Div s l y",
        Cast={"to": 1},
    )
    given = {"words": random(9), "pad": np.array(3), "a1": np.array([1]), "least": 1e-9}
    assert missing_of(imported(tmp_path, model(nodes, ("N", 6), dtype="i64", **given)))


@pytest.mark.parametrize(
    "count",
    [
        "ReduceSum m a1 k; Max k two l",  # of one token it is half of it
        "Mul m two m2; ReduceSum m2 a1 k; Max k least l",
    ],
)
def test_another_share_of_a_sum_is_no_mean(count: str, tmp_path: Path) -> None:
    assert "mean_pool" not in rules_of(imported(tmp_path, pooled(count)))


@pytest.mark.parametrize(
    "text", ["not_equal(y, 0)", "not_equal(x)", "not_equal(x, -1)", "not_equal(x, 0) or 1"]
)
def test_another_form_of_not_equal_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="--bind m="):
        imported(tmp_path, masked(*MASKS["in floats"]), bound={"m": text})


def test_transposes_that_undo_each_other_go(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", "x", "a", perm=[0, 2, 1]),
        node("Relu", "a", "b"),
        node("Transpose", "a", "c", perm=[0, 2, 1]),
        node("Transpose", "b", "d", perm=[0, 2, 1]),
        node("Add", "c d", "y"),
    ]
    found = agrees(tmp_path, model(nodes, ("N", 4, 3)))
    assert ops_of(found) == ["transpose", "relu", "transpose", "add"]


def test_zeros_that_are_added_go(tmp_path: Path) -> None:
    made = network("Add x o a; Mul a i b; Tanh b p; Add p o y", o=np.zeros(8, np.float32))
    assert ops_of(agrees(tmp_path, made)) == ["tanh"]


def test_zeros_that_make_the_value_larger_stay(tmp_path: Path) -> None:
    made = network("Tanh x p; Add p o y", ("N", 1, 8), o=np.zeros((1, 3, 8), np.float32))
    assert ops_of(agrees(tmp_path, made)) == ["tanh", "add"]
