"""`assay ab` of two versions of a framework: each side has its own interpreter."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from program import assay


def interpreter(folder: Path, version: str) -> Path:
    """Make a Python whose numpy says that it has this version, and which notes each of its starts."""
    own = folder / version
    own.mkdir()
    (own / "sitecustomize.py").write_text(f"import numpy\nnumpy.__version__ = {version!r}\n")
    program = own / "python"
    program.write_text(
        f"#!/bin/sh\necho $$ >>{shlex.quote(str(own / 'starts'))}\n"
        f'PYTHONPATH={shlex.quote(str(own))}:$PYTHONPATH exec {shlex.quote(sys.executable)} "$@"\n'
    )
    program.chmod(0o755)
    return program


def test_each_side_runs_with_its_own_interpreter(tmp_path: Path) -> None:
    old, new = interpreter(tmp_path, "1.0"), interpreter(tmp_path, "2.0")
    out = tmp_path / "ab"
    done = assay(
        "ab", "--workload", "mlp", "--backend", "numpy", "--dataset", "synthetic", "--samples", 512,
        "--check=false", "--threads", 1, "--blocks", 2, "--block-seconds", 0.002,
        "--warm-up-seconds", 0, "--max-time", "1s",
        "--a", f"interpreter=numpy={old}", "--b", f"interpreter=numpy={new}", "--out", out,
    )  # fmt: skip
    assert done.returncode in (0, 3, 6), done.stderr
    assert "numpy: version 1.0 in a, 2.0 in b" in done.stdout
    digests = []
    for side, program in (("a", old), ("b", new)):
        report = json.loads((out / f"{side}.json").read_text())
        (cell,) = report["cells"]
        assert cell["backend_version"] == program.parent.name
        forks = cell["forks"]
        assert forks
        assert {fork["status"] for fork in forks} == {"ok"}
        assert len((program.parent / "starts").read_text().splitlines()) == len(forks)
        digests.append({fork["adapter_digest"] for fork in forks})
        assert f"--interpreter numpy={program}" in cell["reproduce"]
    assert digests[0].isdisjoint(digests[1])
    assert len(digests[0]) == len(digests[1]) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (f"torch={sys.executable}", "no cell uses torch"),
        (f"numpy={Path(sys.executable).parent}", "is not a program"),
        ("numpy=/no/such/python", "does not exist"),
    ],
)
def test_an_interpreter_that_would_change_nothing_is_refused(given: str, said: str) -> None:
    done = assay("ab", "--workload", "mlp", "--backend", "numpy", "--dry-run", "--b", f"interpreter={given}")
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
