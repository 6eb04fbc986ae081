"""The program that starts the worker of the backend cuda: which libraries it gives it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from program import BUILD

STARTER = BUILD / "backends/cuda/assay-worker-cuda"
BATCH_LIBRARY = BUILD / "libassay_batch.so"  # found next to the starter
NEEDED = ("libcuda.so.1", "libcublasLt.so.13", "libnvrtc.so.13", "libcudnn.so.9")

pytestmark = pytest.mark.skipif(not STARTER.exists(), reason=f"{STARTER} is not built")


def make_library(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", str(path)], check=True)


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment of wheels in which the libraries are empty, as is the driver beside it."""
    packages = tmp_path / "cuda/lib/python3.11/site-packages/nvidia"
    for folder, names in {"cu13": NEEDED[1:3], "cudnn": NEEDED[3:]}.items():
        for name in names:
            make_library(packages / folder / "lib" / name)
    make_library(tmp_path / "driver" / NEEDED[0])
    return packages


def start(folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a copy of the starter, next to a worker that prints what it got."""
    starter = shutil.copy(STARTER, folder)
    (folder / BATCH_LIBRARY.name).symlink_to(BATCH_LIBRARY)
    worker = folder / "assay-worker-cuda-gpu"
    worker.write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH"\n')
    worker.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    return subprocess.run(
        [starter, str(folder / "cell"), "0"],
        env=kept | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_worker_gets_the_libraries_of_the_environment_after_those_of_the_caller(
    tmp_path: Path, environment: Path
) -> None:
    driver = str(tmp_path / "driver")
    variables = {"ASSAY_CUDA_ENVIRONMENT": str(tmp_path / "cuda"), "LD_LIBRARY_PATH": driver}
    found = start(tmp_path, variables).stdout.strip().split(":")
    assert found[0] == driver
    assert set(found[1:]) == {str(environment / "cu13/lib"), str(environment / "cudnn/lib")}


def test_an_environment_that_was_not_made_changes_nothing(tmp_path: Path, environment: Path) -> None:
    own = ":".join([str(tmp_path / "driver"), str(environment / "cu13/lib"), str(environment / "cudnn/lib")])
    variables = {"ASSAY_CUDA_ENVIRONMENT": str(tmp_path / "nothing"), "LD_LIBRARY_PATH": own}
    assert start(tmp_path, variables).stdout.strip() == own


def test_the_description_names_the_environment() -> None:
    described = json.loads((STARTER.parent / "backend.json").read_text())
    assert described["environment"]["ASSAY_CUDA_ENVIRONMENT"] == "${environment}"
    assert described["framework"] == "cuda"
