"""Writes ONNX's own test cases of some operators to a file: python node_cases.py OUT.npz.

It runs in the environment of tests/onnx/requirements.txt. The array "cases" is a JSON list of the name,
operator, attributes and the names of operands and results of each case. "<case>/in/<i>" and "<case>/out/<i>"
are arrays: those of bfloat16 as float32, and those of other types that numpy does not have are left out.

ONNX draws the cosines and sines of its cases of rotary embeddings, and our op computes them. These cases get
the cosines and sines of our op, and their results from ONNX's reference evaluator.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper
from onnx.backend.test.case.node import collect_testcases
from onnx.reference import ReferenceEvaluator

OPERATORS = {"Attention", "Gelu", "LayerNormalization", "RMSNormalization", "RotaryEmbedding"}
KINDS = "bfiu"
BASE = 10000.0  # pair i of D / 2 is turned by position * BASE^(-2 i / D)


def plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def with_our_angles(case: Any, names: list[str], inputs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return operands with the cosines and sines of our op, and what ONNX computes from them."""
    fed = dict(zip(names, inputs, strict=True))
    for name, function in (("cos_cache", np.cos), ("sin_cache", np.sin)):
        positions, pairs = fed[name].shape[-2:]
        angles = np.outer(np.arange(positions), BASE ** (-np.arange(pairs) / pairs))
        fed[name] = np.broadcast_to(function(angles), fed[name].shape).astype(fed[name].dtype)
    return list(fed.values()), ReferenceEvaluator(case.model).run(None, fed)


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of cases of other operators
        collected = collect_testcases(None)
    cases, arrays = [], {}
    for case in collected:
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].op_type not in OPERATORS:
            continue  # "_expanded" cases have the operator written out in others
        inputs, outputs = case.data_sets[0]
        names = [name for name in nodes[0].input if name]
        results = [name for name in nodes[0].output if name]
        if nodes[0].op_type == "RotaryEmbedding":
            inputs, outputs = with_our_angles(case, names, inputs)
        cases.append(
            {
                "name": case.name,
                "op": nodes[0].op_type,
                "attributes": {a.name: plain(helper.get_attribute_value(a)) for a in nodes[0].attribute},
                "inputs": names,
                "outputs": results,
                "types": [np.asarray(array).dtype.name for array in inputs],
            }
        )
        for kind, given in (("in", inputs), ("out", outputs)):
            for i, array in enumerate(map(np.asarray, given)):
                if array.dtype.name == "bfloat16":
                    array = array.astype(np.float32)
                if array.dtype.kind in KINDS:
                    arrays[f"{case.name}/{kind}/{i}"] = array
    np.savez(Path(sys.argv[1]), cases=np.array(json.dumps(cases)), **arrays)


main()
