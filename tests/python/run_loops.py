"""Runs independent loops in one process of a framework: FRAMEWORK LOOPS_FOLDER MODES OPERATORS_AND_MODES.

MODES are those of lenet5, which takes three steps in each, from the same initial values on the same batches.
Prints their losses by mode, and the sum of the result of each operator and mode, as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import replace
from typing import Any

STEPS = 3


def main() -> None:
    name, folder, modes, operators = sys.argv[1:]
    sys.path.insert(0, folder)
    os.environ.setdefault("TF_XLA_FLAGS", "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit")
    module = importlib.import_module(f"{name}_loop")
    from clock import data_set, resident_batches
    from networks import NETWORKS

    (framework_class,) = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and hasattr(one, "count") and one.__module__ == module.__name__
    ]
    framework = framework_class()
    network = replace(NETWORKS["lenet5"], batch=8)
    batches = resident_batches(network)

    def seed() -> None:
        if name == "tensorflow":
            module.keras.utils.set_random_seed(1)
        elif name == "mxnet":
            module.mx.random.seed(1)

    losses: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for mode in filter(None, modes.split(",")):
        seed()
        if mode == "fit-generator":
            loop = framework.loading("lenet5", network, mode, *data_set(network))
        else:
            loop = framework.resident("lenet5", network, mode, "train", batches)
        losses[mode] = [loop.run(1) for _ in range(STEPS)]
        counts[mode] = loop.parameters()
    results = {}
    for operator in filter(None, operators.split(",")):
        op, mode = operator.split(":")
        results[operator] = framework.operator(op, mode).run(2)
    print("loop: " + json.dumps({"losses": losses, "parameters": counts, "results": results}), flush=True)


if __name__ == "__main__":
    main()
