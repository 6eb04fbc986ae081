"""`assay import` confines the importer, verifies what it made, and leaves nothing half-done."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from assay_worker.tensors import write_tensors
from framework import ENVIRONMENTS
from imported_network import network, weights_of, write_folder
from program import PROGRAM, assay, told
from worker_under_test import ROOT

RUNTIME = ENVIRONMENTS / "onnxruntime/bin/python"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
needs_runtime = pytest.mark.skipif(not RUNTIME.exists(), reason="not set up: assay setup onnxruntime")


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_IMPORTER", str(ROOT / "tests/data/importer"))


def imported(folder: Path, what: str, *options: object) -> subprocess.CompletedProcess[str]:
    """Let the stand-in copy folder/network to models/mine, or misbehave."""
    (folder / "model.onnx").write_text(what)
    (folder / "network").mkdir(exist_ok=True)
    out = ["--out", folder / "models/mine"]
    return assay("import", folder / "model.onnx", "--python", sys.executable, *out, *options)


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "models").glob("*"))


def test_a_network_without_its_file_is_made_and_says_that_it_is_not_verified(tmp_path: Path) -> None:
    write_folder(tmp_path / "network", network())
    done = imported(tmp_path, "copy")
    assert done.returncode == 0, done.stderr
    assert "not verified: there is no other program" in done.stdout
    assert entries(tmp_path) == ["mine"]
    made = tmp_path / "models/mine"
    assert json.loads((made / "verified.json").read_text())["verified"] is False
    assert assay("inspect", made).returncode == 0
    again = imported(tmp_path, "copy")
    assert again.returncode == 2
    assert "is there already" in again.stderr


def test_what_the_importer_refuses_is_said_and_nothing_stays(tmp_path: Path) -> None:
    done = imported(tmp_path, "refused")
    assert done.returncode == 2
    assert "a table of what is missing" in done.stdout
    assert done.stderr.strip() == "assay: import: LRN is not supported (first node 'norm1')"
    assert entries(tmp_path) == []


def test_a_fault_of_the_importer_is_one(tmp_path: Path) -> None:
    done = imported(tmp_path, "fault")
    assert done.returncode == 1
    assert "the importer has a fault: RuntimeError: the importer is broken" in done.stderr
    assert entries(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_importer_and_nothing_stays(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "model.onnx").write_text("slow")
    command = [
        PROGRAM,
        "import",
        tmp_path / "model.onnx",
        "--python",
        sys.executable,
        "--out",
        tmp_path / "models/mine",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not list(tmp_path.glob("models/.assay-import-*/mine/waits")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == 4, errors
    assert f"interrupted by {number.name}; nothing was made" in errors
    assert entries(tmp_path) == []


def test_a_network_that_no_reader_takes_is_refused(tmp_path: Path) -> None:
    document = network()
    document["nodes"][2]["op"] = "adam"
    write_folder(tmp_path / "network", document)
    done = imported(tmp_path, "copy")
    assert done.returncode == 2
    assert "'adam' is not an op of a forward pass" in done.stderr
    assert entries(tmp_path) == []


def test_the_importer_may_not_take_all_memory(tmp_path: Path) -> None:
    done = imported(tmp_path, "greedy")
    assert done.returncode == 1
    assert "MemoryError" in done.stderr


@pytest.mark.parametrize(("what", "error"), [("outside", "PermissionError"), ("online", "PermissionError")])
def test_the_importer_is_confined(tmp_path: Path, what: str, error: str) -> None:
    by = told("env", "--json").get("confined_by", "landlock")
    done = imported(tmp_path, what)
    if "nothing" in by or (what == "online" and "ConnectionRefusedError" in done.stderr):
        pytest.skip("this kernel cannot")
    assert error in done.stderr
    assert not (tmp_path / "stolen").exists()


def test_a_name_that_ids_cannot_have_and_a_missing_file_are_refused_first(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("copy")
    bad = assay("import", tmp_path / "model.onnx", "--out", tmp_path / "my model")
    assert bad.returncode == 2
    assert "rename the folder" in bad.stderr
    gone = assay("import", tmp_path / "gone.onnx", "--out", tmp_path / "x")
    assert gone.returncode == 2
    assert "is not a file" in gone.stderr


def test_without_the_environment_the_command_that_makes_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_ENVIRONMENTS", str(tmp_path))
    (tmp_path / "model.onnx").write_text("copy")
    done = assay("import", tmp_path / "model.onnx", "--out", tmp_path / "x")
    assert done.returncode == 2
    assert "run assay setup import" in done.stderr
    listed = assay("setup", "import", "--dry-run")
    assert listed.returncode == 0, listed.stderr
    assert "onnx==" in listed.stdout
    assert "numpy==" in listed.stdout


EXPORT = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import onnx
from assay_onnx import model_of
from assay_worker.program import read_program
from assay_worker.tensors import read_tensors
graph = read_program(Path(sys.argv[2])).inference
weights = read_tensors(Path(sys.argv[3]))
named = json.loads(sys.argv[4]).items()
onnx.save(model_of(graph, {ours: weights[theirs] for ours, theirs in named}), sys.argv[5])
"""
PLAIN = {name.replace("/conv/weight", "conv_weight"): name for name in weights_of(network())}


def add_original(folder: Path, weights: Path) -> None:
    """Write the network with these weights as if it was the user's file."""
    graph = folder / "graph.json"
    graph.write_text(assay("inspect", folder, "--graph", "--batch", "3").stdout)
    python = ROOT / "backends/python"
    command = [RUNTIME, "-c", EXPORT, python, graph, weights, json.dumps(PLAIN), folder / "original.onnx"]
    subprocess.run(command, check=True)
    graph.unlink()
    original = {"input": "inputs", "output": "output/logits", "drawn": [], "neutral": []}
    (folder / "provenance.json").write_text(json.dumps({"original": original, "bound": {}}))


@needs_runtime
def test_the_file_is_run_as_it_is_and_must_agree(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "network", network())
    add_original(folder, folder / "weights.safetensors")
    done = imported(tmp_path, "copy")
    assert done.returncode == 0, done.stderr
    assert "verified with ONNX Runtime" in done.stdout
    made = tmp_path / "models/mine"
    verified = json.loads((made / "verified.json").read_text())
    assert verified["verified"] is True
    assert 0 < verified["ratio_of_bound"] < 0.3
    assert "/original/" in verified["cell"]

    wrong = weights_of(network())
    wrong["fc.bias"] = wrong["fc.bias"] * np.float32(1.001)
    write_tensors(tmp_path / "wrong.safetensors", wrong)
    add_original(folder, tmp_path / "wrong.safetensors")
    shutil.rmtree(tmp_path / "models")
    done = imported(tmp_path, "copy")
    assert done.returncode == 4
    assert "does not compute what its file computes" in done.stderr
    assert "logits: largest error" in done.stderr
    assert entries(tmp_path) == []
    assert imported(tmp_path, "copy", "--no-verify").returncode == 0


@needs_runtime
def test_mode_original_is_only_for_the_weights_of_its_file(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mine", network())
    weights = folder / "weights.safetensors"
    add_original(folder, weights)
    check = [
        "check",
        "--backend",
        "onnxruntime",
        "--mode",
        "original",
        "--task",
        "infer",
        "--batch",
        "2",
        "--json",
    ]

    def answer(*options: object) -> tuple[str, str]:
        (cell,) = told(*check, *options, codes=(0, 4))["cells"]
        return cell["status"], cell["reason"]

    assert answer("--workload", folder)[0] == "ok"
    assert answer("--workload", folder, "--weights", weights)[0] == "unsupported"
    status, reason = answer("--workload", "lenet5")
    assert (status, "imported from ONNX" in reason) == ("unsupported", True)
    drawn = weights_of(network())
    del drawn["fc.bias"]
    write_tensors(weights, drawn)
    status, reason = answer("--workload", folder)
    assert (status, "'fc.bias' is drawn here" in reason) == ("unsupported", True)
    record = json.loads((folder / "provenance.json").read_text())
    record["original"]["drawn"] = [{"file": "fc.bias", "tensor": "fc.bias", "transpose": False}]
    (folder / "provenance.json").write_text(json.dumps(record))
    assert answer("--workload", folder)[0] == "ok", "the file gets the drawn bias"
    record["original"]["batch"] = 1
    (folder / "provenance.json").write_text(json.dumps(record))
    status, reason = answer("--workload", folder)
    assert (status, "use --batch 1, or another mode" in reason) == ("unsupported", True)
    record["original"]["batch"] = 2
    (folder / "provenance.json").write_text(json.dumps(record))
    assert answer("--workload", folder)[0] == "ok"
    (folder / "original.onnx").unlink()
    assert answer("--workload", folder)[0] == "unsupported"
