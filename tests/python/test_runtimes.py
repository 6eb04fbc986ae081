"""ONNX Runtime and OpenVINO: what they compute is the oracle's, and mistakes of the export are found."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from framework import ENVIRONMENTS
from onnx_mistakes import MISTAKES, Mistake
from program import PROGRAM, assay
from worker_under_test import ROOT

RUNTIMES = ("onnxruntime", "openvino")
SMALL = ("mlp", "lenet5", "cnn", "cifar10-cnn", "lstm", "vit-tiny", "nanogpt")
LARGE = ("resnet56", "resnet50", "googlenet", "googlenet_bn", "minilm", "alexnet", "vgg_a", "bert-base")
BATCH = ["--batch", "4", "--dataset", "synthetic"]
SHARE = 0.3  # of the bound; the worst seen was 0.13

missing = [name for name in RUNTIMES if not (ENVIRONMENTS / name / "bin/python").exists()]
pytestmark = [
    pytest.mark.skipif(bool(missing), reason=f"not set up: assay setup {','.join(missing)}"),
    pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built"),
]


def checked(out: Path, *options: str, backends: Path = ROOT / "tests") -> list[dict[str, Any]]:
    options += ("--task", "infer", "--steps", "2", "--warm-up-steps", "1", "--warm-up-seconds", "0",
                "--forks", "1", "--exams", "1", "--roofline", "false", "--threads", "1")  # fmt: skip
    done = assay("run", "--out", out, *options, backends=backends)
    assert out.exists(), done.stderr + done.stdout
    cells: list[dict[str, Any]] = json.loads(out.read_text())["cells"]
    return cells


EXPORT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import numpy as np
import onnx
from assay_onnx import model_of
from assay_onnx.model import weights_of
from assay_worker.program import read_program
graph = read_program(Path(sys.argv[2])).inference
model = model_of(graph, weights_of(graph, {}))
onnx.checker.check_model(model, full_check=True)
print(len(model.graph.node), model.opset_import[0].version)
"""


@pytest.mark.parametrize(
    "workload", [*SMALL, *(pytest.param(name, marks=pytest.mark.nightly) for name in LARGE)]
)
def test_networks_are_equal_in_every_mode_and_their_models_pass_the_full_check_of_onnx(
    workload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    small = ["--image-size", "64"] if workload in ("resnet50", "googlenet", "googlenet_bn") else []
    modes = ["--backend", "onnxruntime,openvino", "--mode", "enable-all,disable-all,latency"]
    cells = checked(tmp_path / "r.json", "--workload", workload, *BATCH, *small, *modes, "--keep-folders")
    assert len(cells) == 3
    for cell in cells:
        assert cell["kind"] == "runtime"
        assert cell["status"] == "ok", (cell["id"], cell.get("reason"))
        assert cell["equivalence"]["worst"] <= SHARE, cell["id"]
    (graph, *_) = tmp_path.glob("assay-*/*onnxruntime*enable-all*/graph.json")
    python = ENVIRONMENTS / "onnxruntime/bin/python"
    done = subprocess.run(
        [python, "-c", EXPORT, ROOT / "backends/python", graph], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == "20"


def test_the_precision_that_openvino_chooses_by_itself_is_judged_by_that_of_the_cell(tmp_path: Path) -> None:
    options = ["--workload", "lenet5", *BATCH, "--backend", "openvino"]
    (cell,) = checked(tmp_path / "r.json", *options, "--mode", "default")
    own = cell["forks"][0]["settings"]["computes_in"]
    assert (cell["status"], own) in (("wrong_result", "bf16"), ("ok", "fp32")), cell.get("reason")
    if own == "bf16":
        assert "computes in bf16 by itself, and the cell is in fp32: use another mode" in cell["reason"]
    (bf16,) = checked(tmp_path / "bf16.json", *options, "--precision", "bf16")
    assert bf16["status"] == "ok", bf16.get("reason")
    assert bf16["equivalence"]["worst"] <= SHARE


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_settings_are_read_back(runtime: str, tmp_path: Path) -> None:
    (cell,) = checked(tmp_path / "r.json", "--workload", "mlp", *BATCH, "--backend", runtime)
    settings = cell["forks"][0]["settings"]
    observed = {
        "onnxruntime": {"threads": "1", "graph_optimization": "ORT_ENABLE_ALL"},
        "openvino": {"inference_num_threads": "1", "num_streams": "1", "inference_precision_hint": "f32"},
    }[runtime]
    assert observed.items() <= settings.items(), settings


def test_training_is_refused_with_the_task_that_works(tmp_path: Path) -> None:
    done = assay("run", "--workload", "mlp", "--backend", "openvino", "--dry-run")
    assert "infer" in done.stdout + done.stderr, done.stdout + done.stderr


def edited_tree(tree: Path, file: str, old: str, new: str) -> Path:
    """Return a folder of backends: ONNX Runtime with an edit in a file of it or of its export."""
    shutil.copytree(ROOT / "backends/onnxruntime", tree / "onnxruntime")
    shutil.copytree(ROOT / "backends/python/assay_onnx", tree / "python/assay_onnx")
    (tree / "python/assay_worker").symlink_to(ROOT / "backends/python/assay_worker")
    source = (tree / file).read_text()
    assert source.count(old) == 1
    (tree / file).write_text(source.replace(old, new))
    return tree


def test_a_runtime_that_is_right_only_after_a_second_load_is_refused(tmp_path: Path) -> None:
    """The program that is examined is the one that was timed: setting its weights again loads nothing."""
    file = "onnxruntime/onnxruntime_adapter.py"
    old, new = "np.array(value.numpy())", "np.array(value.numpy()) * min(1, self.loads)"
    tree = edited_tree(tmp_path / "backends", file, old, new)
    loads = "    def load(self, model: bytes) -> None:\n"
    counted = f"{loads}        self.loads = getattr(self, 'loads', -1) + 1\n"
    (tree / file).write_text((tree / file).read_text().replace(loads, counted))
    options = ["--workload", "mlp", *BATCH, "--backend", "onnxruntime"]
    (cell,) = checked(tmp_path / "r.json", *options, backends=tree)
    assert cell["status"] == "wrong_result", cell.get("reason")


EVERY_DAY = {"the gates in our order", "an epsilon ten times as large in layer_norm", "gelu always by erf"}


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(each, id=each.name, marks=() if each.name in EVERY_DAY else pytest.mark.nightly)
        for each in MISTAKES
    ],
)
def test_a_mistake_of_the_export_is_found(mistake: Mistake, tmp_path: Path) -> None:
    tree = edited_tree(tmp_path / "backends", "python/assay_onnx/ops.py", mistake.old, mistake.new)
    size = ["--size", mistake.size] if mistake.size else []
    if not mistake.workload.startswith("op/"):
        size += BATCH
    cells = checked(
        tmp_path / "r.json", "--workload", mistake.workload, *size, "--backend", "onnxruntime", backends=tree
    )
    assert any(cell["status"] == "wrong_result" for cell in cells), [
        (cell["id"], cell["status"], cell.get("reason")) for cell in cells
    ]


@pytest.mark.parametrize("mistake", MISTAKES, ids=[each.name for each in MISTAKES])
def test_every_mistake_fits_the_file(mistake: Mistake) -> None:
    assert (ROOT / "backends/python/assay_onnx/ops.py").read_text().count(mistake.old) == 1
