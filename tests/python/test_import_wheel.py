"""The models in the wheel of onnx: nine published networks, and 117 layers that PyTorch exported."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from assay_import import coverage, legal
from assay_import.errors import Refused
from assay_import.importing import import_file
from assay_import.lifts import lift
from assay_import.network import document_of
from assay_import.options import Options
from assay_import.tensors import tensors_of
from imported import onnx_or_skip, packages_with_onnx
from network_interpreter import compute

onnx = onnx_or_skip()

DATA = Path(onnx.__file__).parent / "backend/test/data"
# For each published network, the ops that it becomes.
WHOLE = {
    "bvlc_alexnet": {"convolution": 5, "local_response_norm": 2, "max_pool": 3, "linear": 3},
    "densenet121": {"batch_norm": 121, "convolution": 121, "relu": 121, "concat": 58, "average_pool": 3},
    "inception_v1": {"convolution": 57, "local_response_norm": 2, "max_pool": 13, "average_pool": 1},
    "inception_v2": {"convolution": 69, "average_pool": 8, "max_pool": 5, "concat": 10},
    "resnet50": {"batch_norm": 53, "convolution": 53, "relu": 49, "add": 16, "linear": 1},
    "shufflenet": {"convolution": 49, "average_pool": 4, "concat": 3},
    "squeezenet": {"convolution": 26, "relu": 26, "concat": 8, "max_pool": 3, "dropout": 1},
    "vgg19": {"convolution": 16, "linear": 3, "relu": 18, "max_pool": 5, "dropout": 2},
    "zfnet512": {"convolution": 5, "local_response_norm": 2, "max_pool": 3, "linear": 3},
}
BAKED = ("resnet50", "vgg19")  # with a batch of 1 in a reshape, and in nothing else
FREED = (*BAKED, "bvlc_alexnet", "inception_v1", "inception_v2", "shufflenet", "zfnet512")
MAPPED = 69  # of the 117 layers


def published(name: str) -> Path:
    return DATA / f"light/light_{name}.onnx"


@pytest.mark.parametrize("name", WHOLE)
def test_a_published_network_is_read_whole(name: str) -> None:
    found = import_file(published(name), Options(free_batch=name in FREED))
    assert found.gaps == []
    assert found.network
    ops = Counter(each["op"] for each in found.network.document["nodes"])
    assert {op: ops[op] for op in WHOLE[name]} == WHOLE[name]
    # Their weights, but some small ones, are ConstantOfShape: they are drawn, each for a tensor of the file.
    drawn = found.provenance["original"]["drawn"]
    assert len(drawn) > 0.6 * len(found.network.document["tensors"])
    assert all(each["file"] for each in drawn)
    shapes = {each["name"]: each["shape"] for each in found.network.document["tensors"]}
    assert all(len(shapes[each["tensor"]]) == 2 for each in drawn if each["transpose"])


@pytest.mark.parametrize("name", BAKED)
def test_a_batch_in_a_reshape_is_found(name: str) -> None:
    (gap,) = import_file(published(name), Options()).gaps
    assert gap.feature.startswith("reshape: a batch of 1 is written in it")


def layers() -> list[Path]:
    folder = packages_with_onnx()
    assert folder is not None
    return sorted(
        path for kind in ("pytorch-converted", "pytorch-operator") for path in (DATA / kind).iterdir()
    )


def computed(folder: Path) -> tuple[np.ndarray, np.ndarray] | None:
    """Return what a layer's network computes, and what the wheel says; None if an op is missing."""
    x, wanted = (
        onnx.numpy_helper.to_array(onnx.load_tensor(folder / f"test_data_set_0/{name}_0.pb"))
        for name in ("input", "output")
    )
    from assay_import.onnx_source import OnnxSource

    graph = OnnxSource(folder / "model.onnx", Options()).read(x.shape[0]).graph
    graph.sweep()
    lift(graph, ())
    legal.legalise(graph)
    graph.sweep()
    gaps = coverage.gaps(graph)
    if gaps:
        assert all(gap.feature and gap.first and gap.nodes for gap in gaps)
        return None
    network = document_of(graph, tensors_of(graph, False), "")
    return compute(network.document, network.arrays(), x), wanted


def test_each_layer_agrees_with_its_outputs_or_is_refused_by_name() -> None:
    agreed = []
    for folder in layers():
        try:
            found = computed(folder)
        except Refused as refused:
            assert "input" in str(refused), folder.name  # several, or of another type
            continue
        if found is not None:
            got, wanted = found
            assert got.shape == wanted.shape, folder.name
            assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max(), folder.name
            agreed.append(folder.name)
    assert len(layers()) == 117
    assert len(agreed) >= MAPPED, agreed


@pytest.mark.parametrize("folder", sorted((DATA / "simple").iterdir()), ids=lambda folder: folder.name)
def test_models_of_other_kinds_end_without_a_trace(folder: Path) -> None:
    try:
        found = import_file(folder / "model.onnx", Options())
    except Refused as refused:
        assert str(refused)
        return
    assert found.gaps or found.network
