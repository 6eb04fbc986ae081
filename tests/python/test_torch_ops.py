"""The functions of the torch adapter against the contracts of docs/operators.md, written in numpy."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from framework import FRAMEWORKS
from worker_under_test import ROOT

TORCH = FRAMEWORKS[0]
pytestmark = TORCH.skip

# Reads a list of calls, writes their results: in the environment of the framework, once for all.
PROGRAM = """
import json, sys
sys.path[:0] = sys.argv[1:3]
import torch, torch_network
for call in json.load(sys.stdin):
    operands = [torch.tensor(operand) for operand in call["operands"]]
    print(json.dumps(torch_network.OPS[call["op"]](**call["attributes"])(*operands).tolist()))
"""


def x(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) * 37 % 64 - 31.5).astype(np.float64) / 16


def softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


A, B, C = x(2, 3, 4), x(2, 5, 4), x(3, 7)
# op, operands, attributes, what the contract says
CASES: list[tuple[str, list[np.ndarray], dict[str, Any], Any]] = [
    ("concat", [A, B, A], {"axis": 1}, np.concatenate([A, B, A], 1)),
    ("dot", [x(9), x(9)], {}, x(9) @ x(9)),
    ("matmul", [C, x(7, 2)], {"transpose_a": False, "transpose_b": False}, C @ x(7, 2)),
    ("matmul", [A, B], {"transpose_a": False, "transpose_b": True}, A @ B.swapaxes(1, 2)),
    ("matmul", [A, B[:, :3]], {"transpose_a": True, "transpose_b": False}, A.swapaxes(1, 2) @ B[:, :3]),
    ("multiply", [A, A + 1], {}, A * (A + 1)),
    ("multiply", [A, np.array(2.5)], {}, A * 2.5),
    ("normalise", [C], {"axes": [0, 1], "epsilon": 1e-12}, C / np.sqrt((C * C).sum())),
    (
        "normalise",
        [C],
        {"axes": [1], "epsilon": 3.0},
        C / np.maximum(np.sqrt((C * C).sum(1, keepdims=True)), 3),
    ),
    ("reduce", [A], {"kind": "sum", "axes": [0, 2]}, A.sum((0, 2))),
    ("reduce", [A], {"kind": "mean", "axes": [1]}, A.mean(1)),
    ("reduce", [A], {"kind": "max", "axes": [1, 2]}, A.max((1, 2))),
    ("reshape", [A], {"shape": [4, 6]}, A.reshape(4, 6)),
    ("sigmoid", [C], {}, 1 / (1 + np.exp(-C))),
    ("slice", [A], {"axis": 2, "begin": 1, "end": 3}, A[:, :, 1:3]),
    ("softmax", [A], {}, softmax(A)),
    ("softplus", [C * 20], {}, np.log1p(np.exp(C * 20))),
    ("softsign", [C], {}, C / (1 + np.abs(C))),
    ("tanh", [C], {}, np.tanh(C)),
    ("transpose", [A], {"permutation": [2, 0, 1]}, A.transpose(2, 0, 1)),
]


@pytest.fixture(scope="module")
def answers() -> list[np.ndarray]:
    calls = [
        {"op": op, "operands": [operand.tolist() for operand in operands], "attributes": attributes}
        for op, operands, attributes, _ in CASES
    ]
    folders = [str(Path(ROOT) / "backends" / name) for name in ("python", "torch")]
    done = subprocess.run(
        [TORCH.python, "-c", PROGRAM, *folders],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [np.array(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda case: f"{CASES[case][0]}-{case}")
def test_computes_what_the_contract_says(answers: list[np.ndarray], case: int) -> None:
    expected = np.asarray(CASES[case][3])
    assert answers[case].shape == expected.shape
    np.testing.assert_allclose(answers[case], expected, rtol=2e-5, atol=1e-6)
