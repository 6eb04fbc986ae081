"""Programs and cell folders as the conductor would make them, small."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in ("backends/python", "tests/numpy_backend", "backends/torch"):
    sys.path.insert(0, str(ROOT / folder))

from assay_worker.tensors import write_tensors  # noqa: E402
from worker_under_test import exam_subject  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    """Make a folder that all processes of pytest-xdist share; the first of them removes it."""
    if "ASSAY_TESTS_SHARED" not in os.environ:
        folder = tempfile.mkdtemp(prefix="assay-tests-")
        os.environ["ASSAY_TESTS_SHARED"] = folder
        config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))


# Long tests that share no fixture of their module.
APART = {
    f"test_{name}.py"
    for name in (
        "campaign",
        "campaign_runs",
        "end_to_end",
        "faults",
        "framework_backends",
        "mutants",
        "mxnet_backend",
        "ranks",
        "recompute",
        "reports",
        "verify_overhead",
    )
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what runs at night."""
    for item in items:
        if item.get_closest_marker("nightly") and not os.environ.get("ASSAY_NIGHTLY"):
            item.add_marker(pytest.mark.skip(reason="it runs at night: scripts/test --nightly"))


def unit_of(test: str) -> str:
    """Name what one process runs: the tests of a file, of a framework in it, or one long test."""
    file, _, name = test.partition("::")
    if Path(file).name in APART:
        return test
    return f"{file} {name.partition('[')[2].partition('-')[0]}" if "framework_ops" in file else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let pytest-xdist begin with the largest units and end with single tests.

    So all processes end together. Its own groups (xdist_group) are without effect in pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Units(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    return Units(config, log)


class GraphWriter:
    """Builds graph.json node by node; it ignores the shapes of intermediates."""

    def __init__(self, inputs: tuple[int, ...], training: bool, dtype: str = "f32") -> None:
        self.values: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.outputs: dict[str, str] = {}
        self.updates: dict[str, str] = {}
        self.training = training
        self.value("inputs", inputs, "input")
        self.values[0]["dtype"] = dtype

    def value(self, name: str, shape: tuple[int, ...], role: str, initializer: str = "") -> str:
        value = {
            "name": name,
            "dtype": {"label": "i32", "mask": "u8"}.get(role, "f32"),
            "shape": list(shape),
            "role": role,
        }
        self.values.append(value | ({"initializer": initializer} if initializer else {}))
        return name

    def node(
        self, op: str, name: str, inputs: list[str | None], outputs: list[str] | None = None, **a: Any
    ) -> str:
        outputs = outputs or [name]
        self.nodes.append({"name": name, "op": op, "inputs": inputs, "outputs": outputs, "attributes": a})
        return name

    def linear(self, name: str, x: str, features: tuple[int, int]) -> str:
        weight = self.value(f"{name}.weight", (features[1], features[0]), "parameter", "glorot_uniform")
        bias = self.value(f"{name}.bias", (features[1],), "parameter", "zeros")
        return self.node("linear", name, [x, weight, bias])

    def convolution(self, name: str, x: str, channels: tuple[int, int], kernel: int, **window: int) -> str:
        shape = (channels[1], channels[0], kernel, kernel)
        weight = self.value(f"{name}.weight", shape, "parameter", "he_normal")
        bias = self.value(f"{name}.bias", channels[1:], "parameter", "zeros")
        return self.node("convolution", name, [x, weight, bias], **({"stride": 1, "padding": 0} | window))

    def parameter(self, name: str, *shape: int) -> str:
        return self.value(name, shape, "parameter", "uniform_fan_in")

    def norm(self, op: str, name: str, x: str, features: int, epsilon: float) -> str:
        operands = [self.parameter(f"{name}.weight", features)]
        operands += [self.parameter(f"{name}.bias", features)] if op == "layer_norm" else []
        saved = ["mean", "inverse_deviation"] if op == "layer_norm" else ["inverse_root"]
        return self.node(op, name, [x, *operands], [name, *(f"{name}.{s}" for s in saved)], epsilon=epsilon)

    def made(self, name: str, *shape: int) -> str:
        """Say the shape of an intermediate, as the conductor does."""
        return self.value(name, shape, "intermediate")

    def rows(self, name: str, length: int) -> str:
        return self.made(name, BATCH, length, WIDTH)

    def heads(self, name: str, x: str, length: int, heads: int, width: int) -> str:
        """Make queries, keys or values from rows."""
        projected = self.linear(name, x, (WIDTH, heads * width))
        split = self.node("reshape", f"{name}.heads", [projected], shape=[-1, length, heads, width])
        return self.made(split, BATCH, length, heads, width)

    def mix(self, heads: list[str | None], length: int, sizes: tuple[int, int], **a: Any) -> str:
        """Attention and the linear layer after it."""
        y = self.node("attention", "mix", heads, ["mix", "mix.logsumexp"], **({"scale": 0.0} | a))
        y = self.made(y, BATCH, length, *sizes)
        joined = self.node("reshape", "joined", [y], shape=[-1, length, WIDTH])
        return self.rows(self.linear("output", joined, (WIDTH, WIDTH)), length)

    def batch_norm(self, name: str, x: str, channels: int) -> str:
        roles = [("weight", "parameter", "ones"), ("bias", "parameter", "zeros")]
        roles += [("running_mean", "state", "zeros"), ("running_variance", "state", "ones")]
        operands = [self.value(f"{name}.{field}", (channels,), role, start) for field, role, start in roles]
        outputs = [name]
        if self.training:
            outputs += [
                f"{name}.{r}" for r in ("mean", "inverse_std", "new_running_mean", "new_running_variance")
            ]
            self.updates |= {operands[2]: outputs[3], operands[3]: outputs[4]}
        a = {"epsilon": 1e-5, "momentum": 0.9, "training": self.training}
        return self.node("batch_norm", name, [x, *operands], outputs, **a)

    def finish(
        self, logits: str, batch: int, classes: int, positions: tuple[int, ...] = (), **loss: int
    ) -> dict[str, Any]:
        self.outputs["logits"] = logits
        self.made(logits, batch, *positions, classes)
        if self.training:
            labels = self.value("labels", (batch, *positions), "label")
            self.outputs["loss"] = self.node(
                "softmax_cross_entropy", "loss", [logits, labels], ["loss", "loss.p"], **loss
            )
        return {
            "name": "test",
            "values": self.values,
            "nodes": self.nodes,
            "outputs": self.outputs,
            "updates": self.updates,
        }


BATCH, CLASSES = 6, 5
LENGTH, WIDTH, TOKENS = 4, 8, 9
IGNORED = 0  # a label that the decoder does not count


def mlp(training: bool) -> dict[str, Any]:
    g = GraphWriter((BATCH, 1, 4, 4), training)
    x = g.node("flatten", "flatten", ["inputs"])
    x = g.node("relu", "relu1", [g.linear("fc1", x, (16, 8))])
    return g.finish(g.linear("fc2", x, (8, CLASSES)), BATCH, CLASSES)


def convolutional(training: bool) -> dict[str, Any]:
    """Meet every op of the numpy backend, with a branch, padding and strides."""
    g = GraphWriter((BATCH, 2, 8, 8), training)
    x = g.node("relu", "relu1", [g.convolution("conv1", "inputs", (2, 3), 3, padding=1)])
    x = g.node("add", "add1", [x, g.convolution("conv2", x, (3, 3), 3, padding=1)])
    x = g.node("average_pool", "pool1", [x], kernel=3, stride=2, padding=1)
    x = g.convolution("conv3", x, (3, 4), 3, stride=2)
    x = g.node("flatten", "flatten", [x])
    return g.finish(g.linear("fc1", x, (4, CLASSES)), BATCH, CLASSES)


def normalised(training: bool) -> dict[str, Any]:
    g = GraphWriter((BATCH, 2, 6, 6), training)
    x = g.node("relu", "relu1", [g.batch_norm("bn1", g.convolution("conv1", "inputs", (2, 3), 3), 3)])
    x = g.node("max_pool", "pool1", [x], ["pool1", "pool1.argmax"], kernel=2, stride=2, padding=0)
    return g.finish(g.linear("fc1", g.node("flatten", "flatten", [x]), (12, CLASSES)), BATCH, CLASSES)


def dropping(training: bool) -> dict[str, Any]:
    g = GraphWriter((BATCH, 2, 4, 4), training)
    x = g.node("relu", "relu1", [g.convolution("conv1", "inputs", (2, 64), 3, padding=1)])
    if training:
        x = g.node("dropout", "drop1", [x, g.value("drop1.mask", (BATCH, 64, 4, 4), "mask")], rate=0.25)
    x = g.node("relu", "relu2", [g.linear("fc1", g.node("flatten", "flatten", [x]), (1024, 256))])
    if training:
        x = g.node("dropout", "drop2", [x, g.value("drop2.mask", (BATCH, 256), "mask")], rate=0.5)
    return g.finish(g.linear("fc2", x, (256, CLASSES)), BATCH, CLASSES)


def encoder(training: bool) -> dict[str, Any]:
    """A layer of BERT: sums of embeddings, a padding mask, one pooled vector."""
    g = GraphWriter((BATCH, LENGTH), training, "i32")
    words = g.node("embedding", "words", ["inputs", g.parameter("words.weight", TOKENS, WIDTH)])
    places = g.node("slice", "places", [g.parameter("places.weight", 6, WIDTH)], axis=0, begin=0, end=LENGTH)
    x = g.node("add", "sum1", [g.rows(words, LENGTH), g.made(places, LENGTH, WIDTH)])
    kinds = g.node("slice", "kinds", [g.parameter("kinds.weight", 2, WIDTH)], axis=0, begin=0, end=1)
    kind = g.made(g.node("reshape", "kind", [g.made(kinds, 1, WIDTH)], shape=[WIDTH]), WIDTH)
    x = g.rows(g.node("add", "sum2", [g.rows(x, LENGTH), kind]), LENGTH)
    x = g.rows(g.norm("layer_norm", "norm1", x, WIDTH, 1e-5), LENGTH)
    mask = g.made(g.node("padding_mask", "mask", ["inputs"], padding=0), BATCH, 1, 1, LENGTH)
    heads: list[str | None] = [g.heads(name, x, LENGTH, 2, 4) for name in ("query", "key", "value")]
    y = g.mix([*heads, mask], LENGTH, (2, 4), causal=False)
    x = g.rows(g.node("add", "sum3", [x, y]), LENGTH)
    x = g.rows(g.norm("layer_norm", "norm2", x, WIDTH, 1e-5), LENGTH)
    y = g.node("gelu", "gelu1", [g.linear("up", x, (WIDTH, 12))], approximate="none")
    x = g.node("add", "sum4", [x, g.rows(g.linear("down", y, (12, WIDTH)), LENGTH)])
    x = g.made(g.node("mean_pool", "pool", [g.rows(x, LENGTH), mask]), BATCH, WIDTH)
    return g.finish(g.linear("head", x, (WIDTH, CLASSES)), BATCH, CLASSES)


def decoder(training: bool) -> dict[str, Any]:
    """A layer of a language model: rotary positions, grouped heads, a tied head, a label of each position."""
    g = GraphWriter((BATCH, LENGTH), training, "i32")
    table = g.parameter("words.weight", CLASSES, WIDTH)
    x = g.rows(g.node("embedding", "words", ["inputs", table]), LENGTH)
    normal = g.norm("rms_norm", "norm1", x, WIDTH, 1e-5)
    turned = []
    for name, number in (("query", 4), ("key", 2)):
        split = g.heads(name, normal, LENGTH, number, 2)
        y = g.node("rotary", f"{name}.turned", [split], base=100.0, interleaved=False)
        turned.append(g.made(y, BATCH, LENGTH, number, 2))
    y = g.mix([*turned, g.heads("value", normal, LENGTH, 2, 2), None], LENGTH, (4, 2), causal=True)
    x = g.rows(g.node("add", "sum1", [x, y]), LENGTH)
    x = g.node("silu", "silu1", [g.norm("rms_norm", "norm2", x, WIDTH, 1e-5)])
    logits = g.node("linear", "head", [x, table, g.parameter("head.bias", CLASSES)])
    return g.finish(logits, BATCH, CLASSES, (LENGTH,), ignored=IGNORED)


def patches(training: bool) -> dict[str, Any]:
    """A vision transformer: a convolution makes patches, learned positions are added to them."""
    g = GraphWriter((BATCH, 3, 4, 6), training)
    x = g.convolution("patch", "inputs", (3, WIDTH), 2, stride=2)
    x = g.node("reshape", "flat", [g.made(x, BATCH, WIDTH, 2, 3)], shape=[-1, WIDTH, 6])
    x = g.rows(g.node("transpose", "rows", [x], permutation=[0, 2, 1]), 6)
    x = g.rows(g.node("add", "placed", [x, g.parameter("places.weight", 6, WIDTH)]), 6)
    normal = g.norm("layer_norm", "norm1", x, WIDTH, 1e-5)
    heads: list[str | None] = [g.heads(name, normal, 6, 2, 4) for name in ("query", "key", "value")]
    x = g.node("add", "sum1", [x, g.mix(heads, 6, (2, 4), causal=False)])
    x = g.node("mean_pool", "pool", [g.rows(x, 6)])
    return g.finish(g.linear("head", x, (WIDTH, CLASSES)), BATCH, CLASSES)


MOMENTS = {
    "adam": ("m", "v"),
    "adamw": ("m", "v"),
    "lazy_adam": ("m", "v"),
    "sgd": ("momentum",),
    "rmsprop": ("square",),
}


def write_exam(
    folder: Path, program: dict[str, Any], tensors: Any, random: np.random.Generator, task: str
) -> None:
    """Two batches of three samples, each twice."""
    values, optimizer = program["training"]["values"], program["optimizer"]
    state = dict(tensors)
    plain = optimizer["kind"] == "sgd" and not optimizer.get("momentum", 0.0)
    for value in values:
        for moment in () if plain or value["role"] != "parameter" else MOMENTS[optimizer["kind"]]:
            drawn = random.uniform(0.01, 0.02, value["shape"]).astype("f4")
            state[f"{value['name']}.{moment}"] = drawn if moment in ("v", "square") else -drawn
    write_tensors(folder / "state.safetensors", state)
    last = [value["name"] for value in values if value["role"] == "parameter"][-1]
    extreme = tensors[last].copy()
    extreme[0] = 120
    write_tensors(folder / "extreme.safetensors", {last: extreme})
    shape = values[0]["shape"]
    labels = next((v["shape"] for v in values if v["role"] == "label"), shape[:1])
    if values[0]["dtype"] == "i32":
        tokens = random.integers(0, CLASSES, shape)
        tokens[1] = 0  # only padding
        np.save(folder / "inputs.npy", tokens.astype("i4"))
    else:
        np.save(folder / "inputs.npy", random.normal(size=shape).astype("f4"))
    np.save(folder / "labels.npy", random.integers(0, CLASSES, labels).astype("i4"))
    masks = {
        value["name"]: random.integers(0, 2, (3, *value["shape"][1:])).astype("u1")
        for value in values
        if value["role"] == "mask"
    }
    if masks:
        write_tensors(folder / "masks.safetensors", masks)
    np.save(folder / "schedule.npy", np.array([[1e-2, 1000], [1e-2, 1000], [5e-3, 1001], [1e-2, 1002]]))
    batches = {"batch": BATCH, "distinct": 3, "row_of": [2, 0, 1, 1, 2, 0], "slots": [1, 0]}
    (folder / "batches.json").write_text(json.dumps(batches))
    (folder / "exam.json").write_text(json.dumps(exam_subject(program, task)))
    if task == "train" and not masks:
        continuation = {"seconds": 0.01, "fewest": 5, "most": 5}
        (folder / "continuation.json").write_text(json.dumps(continuation))


NETWORKS = {
    "mlp": mlp,
    "convolutional": convolutional,
    "normalised": normalised,
    "dropping": dropping,
    "encoder": encoder,
    "decoder": decoder,
    "patches": patches,
}


@pytest.fixture
def make_cell(tmp_path: Path) -> Any:
    """Return a function that makes a cell folder and returns its path."""

    def make(network: str = "mlp", optimizer: dict[str, Any] | None = None, **request: Any) -> Path:
        build = NETWORKS[network]
        program = {
            "schema": "assay-program/2",
            "kind": "network",
            "training": build(True),
            "inference": build(False),
            "optimizer": optimizer or {"kind": "adam"},
        }
        folder = tmp_path / "cell"
        (folder / "check").mkdir(parents=True)
        (folder / "results").mkdir()
        clock = {"kind": "steps", "blocks": 1}
        cell = {
            "protocol": 1,
            "backend": "numpy",
            "task": "train",
            "mode": "eager",
            "precision": "fp32",
            "batch": BATCH,
            "threads": 1,
            "clock": clock,
        }
        (folder / "request.json").write_text(json.dumps(cell | request))
        trains = request.get("task", "train") == "train"
        written = program if trains else {k: program[k] for k in ("schema", "kind", "inference")}
        (folder / "graph.json").write_text(json.dumps(written))
        random = np.random.default_rng(7)
        persistent = [v for v in program["training"]["values"] if v["role"] in ("parameter", "state")]
        tensors = {
            v["name"]: (random.uniform(0.1, 0.6, v["shape"]) * random.choice([-1, 1], v["shape"])).astype(
                "f4"
            )
            for v in persistent
        }
        for name in tensors:
            if name.endswith("running_variance"):
                tensors[name] = np.abs(tensors[name])
        write_tensors(folder / "parameters.safetensors", tensors)
        write_exam(folder / "check", program, tensors, random, request.get("task", "train"))
        return folder

    return make


# Tests of scripts/plot use these. They import plotted late, for it needs altair and other tests do not.


@pytest.fixture
def study_of(tmp_path: Path) -> Any:
    """Return a function that writes a report and reads it as a study."""
    import plotted

    return lambda report: plotted.study_of(report, tmp_path)


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A report with nearly every field and kind of cell, as a study."""
    import made_report
    import plotted

    return plotted.study_of(made_report.everything(), tmp_path_factory.mktemp("everything"))


@pytest.fixture(scope="session")
def of_studies(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A report with the cells that studies compare (plotted.OF_STUDIES), as a study."""
    import made_report
    import plotted

    return plotted.study_of(made_report.studies(), tmp_path_factory.mktemp("studies"))
