"""A network that a user brings is checked, resumed and reproduced like a built-in one."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_worker.tensors import read_tensors, write_tensors
from framework import ENVIRONMENTS
from imported_network import network, reader, weights_of, write_folder
from program import PROGRAM, assay, told

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")

QUICK = ["--batch", "4", "--threads", "1"]
SHORT = [*QUICK, "--forks", "1", "--steps", "2", "--warm-up-steps", "1", "--warm-up-seconds", "0",
         "--exams", "1", "--roofline", "false"]  # fmt: skip
OWN = ("reference", "onednn")
FRAMEWORKS = ("torch", "jax", "tensorflow", "mxnet")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "models/mine", network())


def checked(folder: Path, backends: str, task: str, *options: object) -> list[dict[str, Any]]:
    report = told(
        "check", "--workload", folder, "--backend", backends, "--task", task, "--json", *QUICK, *options,
        codes=(0, 4),
    )  # fmt: skip
    cells: list[dict[str, Any]] = report["cells"]
    return cells


def is_there(backend: str) -> bool:
    return backend in OWN or (ENVIRONMENTS / backend / "bin/python").exists()


# Only layers of frameworks keep weights by themselves, which they would train.
CASES = [(name, False) for name in (*OWN, *FRAMEWORKS, "onnxruntime")] + [(name, True) for name in FRAMEWORKS]


@pytest.mark.parametrize(("backend", "frozen"), CASES)
def test_it_is_equivalent_and_its_constants_stay(tmp_path: Path, backend: str, frozen: bool) -> None:
    if not is_there(backend):
        pytest.skip(f"not set up: assay setup {backend}")
    folder = write_folder(tmp_path / "models/mine", network(frozen))
    tasks = "infer" if backend == "onnxruntime" else "train,infer"
    cells = checked(folder, backend, tasks)
    assert {cell["axes"]["task"] for cell in cells} == set(tasks.split(","))
    for cell in cells:
        assert cell["status"] == "ok", cell["reason"]
        assert cell["id"].startswith("mine@")
        names = cell["equivalence"]["tensors"]["name"]
        trains = cell["axes"]["task"] == "train"
        assert ("last/running/offset" in names) == trains
        assert ("last/parameter/conv_weight" in names) == (trains and not frozen)
        assert ("last/running/conv_weight" in names) == (trains and frozen)


def test_it_has_one_name_and_the_printed_command_finds_it(mine: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    done = assay("run", "--workload", "models/mine", "--backend", "reference", "--task", "infer", *SHORT,
                 "--out", out, folder=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    (cell,) = report["cells"]
    name = cell["axes"]["workload"]
    assert name == cell["id"].split("/")[0]
    assert report["run"]["weights"]["name"] == "models/mine/weights.safetensors"
    command = shlex.split(cell["reproduce"])[1:]
    assert command[command.index("--workload") + 1] == f"models/mine@{name.split('@')[1]}"
    assert cell["id"] in assay(*command, "--dry-run", folder=tmp_path).stdout
    assert name in assay("list", "workloads", "--workload", mine).stdout
    assert name in assay("inspect", mine).stdout
    filtered = ["run", "--workload", f"{mine},lenet5", "--backend", "reference", "--dry-run"]
    assert "lenet5/" not in assay(*filtered, "--filter", "mine@").stdout


def test_a_changed_folder_is_another_network(mine: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    run = ["run", "--workload", mine, "--backend", "reference", "--task", "infer", *SHORT, "--out"]
    assert assay(*run, out).returncode == 0
    resume = assay("run", "--resume", out, "--out", tmp_path / "again.json")
    assert resume.returncode == 0, resume.stderr
    changed = network()
    changed["nodes"][1]["attributes"]["epsilon"] = 1e-3
    write_folder(mine, changed)
    refused = assay("run", "--resume", out, "--out", tmp_path / "again.json")
    assert refused.returncode == 2
    assert "its network.json was changed" in refused.stderr
    assert assay(*run, tmp_path / "later.json").returncode == 0
    compared = assay("compare", out, tmp_path / "later.json")
    assert "they are two networks" in compared.stdout + compared.stderr


def test_cells_begin_with_the_weights_of_the_folder(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = assay("run", "--workload", mine, "--backend", "reference", "--task", "infer,train", *SHORT,
                 "--keep-folders", "--out", tmp_path / "report.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = weights_of(network())
    files = list(tmp_path.glob("assay-*/*/parameters.safetensors"))
    assert files
    for file in files:
        found = read_tensors(file)
        for ours, theirs in [("offset", "offset"), ("conv_weight", "/conv/weight")]:
            np.testing.assert_array_equal(found[ours], expected[theirs])
    exams = list(tmp_path.glob("assay-*/*/check/state.safetensors"))
    assert exams
    for file in exams:
        state = read_tensors(file)
        np.testing.assert_array_equal(state["offset"], expected["offset"])
        trains = "conv_weight.m" in state
        assert np.array_equal(state["conv_weight"], expected["/conv/weight"]) != trains


def test_weights_of_a_file_replace_those_of_the_folder(mine: Path, tmp_path: Path) -> None:
    weights = weights_of(network(), seed=2)
    del weights["offset"]  # a constant, which the folder has
    file = tmp_path / "checkpoint.safetensors"
    write_tensors(file, weights)
    for cell in checked(mine, "onednn", "infer", "--weights", file):
        assert cell["status"] == "ok", cell["reason"]
    weights["fc.bias"] = np.array([0, np.nan, 0], np.float32)
    write_tensors(file, weights)
    done = assay("check", "--workload", mine, "--backend", "onednn", "--weights", file, *QUICK)
    assert done.returncode == 2
    assert "'fc.bias' has at element 1" in done.stderr
    del weights["fc.bias"]
    write_tensors(file, weights)
    done = assay("check", "--workload", mine, "--backend", "onednn", "--weights", file, *QUICK)
    assert done.returncode == 2
    assert "no tensor 'fc.bias'" in done.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--image-size", "12"], "import it with other shapes"),
        (["--classes", "10"], "import it with other shapes"),
        (["--dataset", "fashion-mnist"], "takes samples (1, 6, 6)"),
    ],
)
def test_what_does_not_fit_its_shapes_is_refused(mine: Path, options: list[str], reason: str) -> None:
    done = assay("run", "--workload", mine, "--backend", "reference", "--dry-run", *options)
    assert done.returncode == 2
    assert reason in done.stderr


def test_own_arrays_of_its_shapes_are_its_data(mine: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    inputs, labels, report = tmp_path / "x.npy", tmp_path / "y.npy", tmp_path / "report.json"
    np.save(inputs, random.normal(size=(100, 1, 6, 6)).astype(np.float32))
    np.save(labels, np.arange(100) % 3)
    run = ["run", "--workload", mine, "--backend", "reference", *SHORT]
    named = [*run, "--inputs", inputs, "--labels", labels]
    done = assay(*named, "--out", report)
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert found["run"]["datasets"][0]["name"] == "npy"
    assert "/npy/" in found["cells"][0]["id"]
    command = shlex.split(found["cells"][0]["reproduce"])[1:]
    assert found["cells"][0]["id"] in assay(*command, "--dry-run").stdout
    (tmp_path / "npy").mkdir()
    (tmp_path / "npy/inputs.npy").symlink_to(inputs)
    (tmp_path / "npy/labels.npy").symlink_to(labels)
    assert assay(*run, "--dataset", "npy", "--data", tmp_path, "--out", report).returncode == 0
    again = json.loads(report.read_text())
    first, second = (one["cells"][0]["forks"][0]["blocks"]["loss"][-1] for one in (found, again))
    assert first == second
    np.save(labels, np.arange(100) % 4)
    refused = assay(*named, "--dry-run")
    assert refused.returncode == 2
    assert "has 3 classes" in refused.stderr


@pytest.mark.parametrize("backend", [*OWN, *FRAMEWORKS])
def test_a_network_with_a_label_at_each_row_is_trained(backend: str, tmp_path: Path) -> None:
    if not is_there(backend):
        pytest.skip(f"not set up: assay setup {backend}")
    folder = write_folder(tmp_path / "models/reader", reader())
    random = np.random.default_rng(1)
    inputs, labels = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(inputs, random.normal(size=(100, 1, 4, 6)).astype(np.float32))
    np.save(labels, random.integers(0, 5, (100, 4)))
    for cell in checked(folder, backend, "train", "--inputs", inputs, "--labels", labels):
        assert cell["status"] == "ok", cell["reason"]
        assert "last/parameter/slope" in cell["equivalence"]["tensors"]["name"]
    np.save(labels, random.integers(0, 5, (100, 3)))
    refused = assay("run", "--workload", folder, "--backend", backend, "--inputs", inputs, "--labels", labels,
                    *SHORT)  # fmt: skip
    assert refused.returncode == 2
    assert "labels of the shape (N, 3); use one that has labels of the shape (N, 4)" in refused.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--inputs", "x.npy"], "belong together"),
        (["--inputs", "x.npy", "--labels", "none.npy"], "[labels] got 'none.npy': it does not exist"),
        (["--inputs", "x.npz", "--labels", "x.npy"], "[inputs] got 'x.npz': it is no file whose name"),
        (["--inputs", "x.npy", "--labels", "x.npy", "--dataset", "mnist"], "leave --dataset out"),
    ],
)
def test_arrays_that_are_named_wrongly_are_refused(
    mine: Path, tmp_path: Path, options: list[str], reason: str
) -> None:
    for name in ("x.npy", "x.npz"):
        (tmp_path / name).touch()
    done = assay("run", "--workload", mine, "--backend", "reference", "--dry-run", *options, folder=tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr


def test_a_config_names_it_and_its_shards_are_joined(mine: Path, tmp_path: Path) -> None:
    config = {
        "workload": ["models/mine"],
        "backend": ["reference"],
        "task": ["infer"],
        "batch": [2, 4],
        "threads": [1],
    }
    (tmp_path / "mine.json").write_text(json.dumps(config))
    for index in (1, 2):
        shard = ["--shard", f"{index}/2", "--out", f"shard-{index}.json"]
        done = assay("run", "mine.json", *SHORT[len(QUICK) :], *shard, folder=tmp_path)
        assert done.returncode == 0, done.stderr
    done = assay("merge", "shard-1.json", "shard-2.json", "--out", "both.json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / "both.json").read_text())["cells"]
    assert [cell["status"] for cell in cells] == ["ok", "ok"]
    assert assay("compare", "both.json", "both.json", folder=tmp_path).returncode in (0, 6)


def test_ab_compares_two_settings_of_it(mine: Path, tmp_path: Path) -> None:
    sides = ["--a", "mode=graph", "--b", "mode=eager"]
    short = ["--rounds", "8", "--block-seconds", "0.001", "--warm-up-seconds", "0"]
    done = assay(
        "ab", "--workload", mine, "--backend", "reference", "--task", "infer", *QUICK, *sides, *short,
        "--format", "json", "--out", tmp_path / "ab",
    )  # fmt: skip
    assert done.returncode in (0, 3, 6), done.stderr
    (cell,) = json.loads(done.stdout)["cells"]
    assert cell["ratio"] > 0


def test_two_ranks_train_it_as_one_process_does(tmp_path: Path) -> None:
    if not is_there("torch"):
        pytest.skip("not set up: assay setup torch")
    mine = write_folder(tmp_path / "models/mine", network())
    (cell,) = checked(mine, "torch", "train", "--ranks", "2")
    assert cell["status"] == "ok", cell["reason"]
    assert "mine@" in cell["id"]


def test_a_folder_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    for name, reason in [("models/none", "no such folder"), (f"{tmp_path}/", "network.json")]:
        done = assay("check", "--workload", name, "--backend", "reference")
        assert done.returncode == 2
        assert reason in done.stderr
