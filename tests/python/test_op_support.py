"""The lists of ops in each backend.json are those of the backend's sources."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from op_lists import descriptions, rewritten
from worker_under_test import ROOT


@pytest.mark.parametrize("description", descriptions(), ids=lambda file: file.parent.name)
def test_backend_json_has_the_lists_that_its_sources_give(description: Path) -> None:
    assert description.read_text() == rewritten(description), "scripts/lab/op-lists writes them"


def test_there_are_backends_to_ask() -> None:
    known = {file.parent.name for file in descriptions()}
    runtimes = {"onnxruntime", "openvino"}
    others = {"cuda", "jax", "mxnet", "numpy_backend", "onednn", "reference", "tensorflow", "torch"}
    assert known == others | runtimes


def test_an_op_that_is_added_to_an_adapter_is_added_to_its_lists(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "backends/torch", tmp_path / "torch")
    table = tmp_path / "torch/torch_network.py"
    table.write_text(
        table.read_text().replace('    "add": lambda', '    "mish": lambda: F.mish,\n    "add": lambda')
    )
    layers = tmp_path / "torch/torch_layers.py"
    layers.write_text(
        layers.read_text().replace('    "tanh": plain', '    "mish": plain(nn.Mish),\n    "tanh": plain')
    )
    found = json.loads(rewritten(tmp_path / "torch/backend.json"))
    assert "mish" in found["ops"]
    (rule,) = [rule for rule in found["refuses"] if "other_ops" in rule]
    assert "mish" in rule["other_ops"]
