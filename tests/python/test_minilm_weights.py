"""minilm with its published weights gives the embeddings of transformers' BertModel."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from assay_worker.tensors import read_tensors, write_tensors
from conversation import talk
from framework import ENVIRONMENTS
from program import BUILD, PROGRAM
from worker_under_test import ROOT, exam_subject

PYTHON = ENVIRONMENTS / "bert/bin/python"
SENTENCES, LENGTH, BATCH, WIDTH = 100, 32, 20, 384
TEXTS = 2 * SENTENCES  # the sentences, and as many sequences of drawn tokens
PAD, UNKNOWN, CLS, SEP = 0, 100, 101, 102
# As quoted for revision 1110a243 of sentence-transformers/all-MiniLM-L6-v2.
DIGEST_STARTS, DIGEST_ENDS = "53aa5117", "128d9db"

pytestmark = [
    pytest.mark.skipif(not PYTHON.exists(), reason="BertModel is not set up: scripts/setup --bert"),
    pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not there: cmake --build {BUILD}"),
]


@dataclass(frozen=True)
class Published:
    """The embeddings of the texts, and a cell folder with the program and the published weights."""

    tokens: np.ndarray
    embeddings: np.ndarray
    folder: Path
    report: dict[str, object]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    root = tmp_path_factory.mktemp("minilm")
    made = root / "embeddings.npz"
    text = ROOT / "tests/data/text/input.txt"
    subprocess.run(
        [PYTHON, ROOT / "tests/bert/embeddings.py", made, text, str(SENTENCES), str(LENGTH)], check=True
    )
    with np.load(made) as arrays:
        tokens, embeddings, weights = arrays["tokens"], arrays["embeddings"], str(arrays["weights"])
    command = [PROGRAM, "run", "--workload", "minilm", "--backend", "reference", "--task", "infer"]
    command += ["--weights", weights, "--batch", BATCH, "--sequence-length", LENGTH, "--classes", WIDTH]
    command += ["--dataset", "synthetic", "--check=false", "--forks", 1, "--steps", 1, "--warm-up-steps", 1]
    command += [
        "--warm-up-seconds",
        0,
        "--resident-batches",
        1,
        "--keep-folders",
        "--out",
        root / "report.json",
    ]
    environment = os.environ | {"TMPDIR": str(root), "ASSAY_CACHE": str(root / "cache")}
    subprocess.run([str(part) for part in command], check=True, env=environment)
    (graph,) = root.glob("assay-*/*/graph.json")
    report = json.loads((root / "report.json").read_text())
    assert report["run"]["weights"]["sha256"] == hashlib.sha256(Path(weights).read_bytes()).hexdigest()
    return Published(tokens, embeddings, graph.parent, report)


def lay_out(folder: Path, published: Published, backend: str, mode: str) -> Path:
    """Write the exam of an inference whose head is the identity, so that its logits are the embeddings."""
    (folder / "check").mkdir(parents=True)
    (folder / "results").mkdir()
    request = json.loads((published.folder / "request.json").read_text())
    request |= {"backend": backend, "mode": mode}
    (folder / "request.json").write_text(json.dumps(request))
    (folder / "graph.json").write_text((published.folder / "graph.json").read_text())
    state = dict(read_tensors(published.folder / "parameters.safetensors"))
    state["classifier.weight"] = np.eye(WIDTH, dtype=np.float32)
    state["classifier.bias"] = np.zeros(WIDTH, np.float32)
    for name in ("parameters.safetensors", "check/state.safetensors"):
        write_tensors(folder / name, state)
    np.save(folder / "check/inputs.npy", published.tokens)
    np.save(folder / "check/labels.npy", np.zeros(TEXTS, np.int32))
    np.save(folder / "check/schedule.npy", np.array([[0.0, 1], [0.0, 1]]))
    batches = {
        "batch": BATCH,
        "distinct": BATCH,
        "row_of": list(range(BATCH)),
        "slots": [0] * (TEXTS // BATCH),
    }
    (folder / "check/batches.json").write_text(json.dumps(batches))
    program = json.loads((folder / "graph.json").read_text())
    (folder / "check/exam.json").write_text(json.dumps(exam_subject(program, "infer")))
    return folder


def test_the_published_file_is_the_known_one(published: Published) -> None:
    run = published.report["run"]
    assert isinstance(run, dict)
    digest = run["weights"]["sha256"]
    assert digest.startswith(DIGEST_STARTS)
    assert digest.endswith(DIGEST_ENDS)


def test_the_printed_command_names_the_weights(published: Published) -> None:
    (cell,) = published.report["cells"]  # type: ignore[misc]
    words = shlex.split(cell["reproduce"])
    command = [str(PROGRAM), *words[1:], "--dry-run"]
    weights = command.index("--weights") + 1
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert cell["id"] in done.stdout
    command[weights] += ".gone"
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2


def test_the_tokens_are_those_of_different_sentences(published: Published) -> None:
    tokens = published.tokens[:SENTENCES]
    assert len(np.unique(tokens, axis=0)) == SENTENCES
    lengths = (tokens != PAD).sum(1)
    assert len(np.unique(lengths)) > 10
    assert lengths.max() < LENGTH  # none is cut
    assert (tokens[:, 0] == CLS).all()
    assert (tokens[np.arange(SENTENCES), lengths - 1] == SEP).all()
    assert not (tokens == UNKNOWN).any()


@pytest.mark.parametrize(
    ("backend", "mode"),
    [
        ("reference", "graph"),
        ("onednn", "graph"),
        ("torch", "eager"),
        ("jax", "jit"),
        ("tensorflow", "graph"),
        ("mxnet", "hybridize"),
    ],
)
def test_embeddings_are_those_of_bert_model(
    published: Published, backend: str, mode: str, tmp_path: Path
) -> None:
    python, worker = Path("/usr/bin/env"), BUILD / f"backends/{backend}/assay-worker-{backend}"
    if backend not in ("reference", "onednn"):
        python, worker = ENVIRONMENTS / backend / "bin/python", ROOT / "backends" / backend / "worker.py"
    for needed in (python, worker):
        if not needed.exists():
            pytest.skip(f"{needed} is not there")
    folder = lay_out(tmp_path / "cell", published, backend, mode)
    heard, _ = talk(folder, ["compile", "verify", "quit"], [python, worker])
    assert [event["event"] for event in heard] == ["hello", "compiled", "verified", "bye"], heard
    logits = read_tensors(folder / "results/verify.safetensors")["logits"]
    found = logits.reshape(TEXTS, WIDTH)
    print(f"{backend} {mode}: {np.abs(found - published.embeddings).max():.2g}")
    np.testing.assert_allclose(found, published.embeddings, rtol=0, atol=1e-5)
