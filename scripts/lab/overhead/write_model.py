"""write_model.py GRAPH MODEL: writes what `assay inspect NETWORK --graph` printed, with drawn weights.

The loops of the runtimes read a file, as their users do. The property "parameters" of the
file is the number of those that are trained.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "backends/python"))
from assay_onnx import model_of
from assay_worker.program import read_program


def drawn(shape: list[int], initializer: str, random: np.random.Generator) -> np.ndarray:
    if initializer in ("zeros", "ones"):
        return np.full(shape, initializer == "ones", np.float32)
    fan_in = math.prod(shape[1:]) or 1
    return random.normal(0, fan_in**-0.5, shape).astype(np.float32)


def main(graph: Path, model: Path) -> None:
    random = np.random.default_rng(1)
    constants = [
        value
        for value in json.loads(graph.read_text())["inference"]["values"]
        if value["role"] in ("parameter", "state", "constant")
    ]
    weights = {
        value["name"]: drawn(value["shape"], value.get("initializer", "normal"), random)
        for value in constants
    }
    written = model_of(read_program(graph).inference, weights)
    trained = sum(math.prod(value["shape"]) for value in constants if value["role"] == "parameter")
    onnx.helper.set_model_props(written, {"parameters": str(trained)})
    onnx.save(written, str(model))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
