"""Runs single ops in one process of a framework: python run_ops.py WORKER_FOLDER CELL_FOLDER...

What each found is written as the command verify does; an answer a line: "ok", or what was raised.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from pathlib import Path

worker, *folders = (Path(argument).resolve() for argument in sys.argv[1:])
sys.path[:0] = [str(worker.parent / "python"), str(worker)]
sys.argv = [str(worker / "worker.py"), str(folders[0])]  # as the conductor starts it

from assay_worker import Cell, Unsupported, exam  # noqa: E402
from assay_worker.program import read_program  # noqa: E402

spec = importlib.util.spec_from_file_location("worker", worker / "worker.py")
assert spec
assert spec.loader
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
adapter_type = module.adapter()

for number, folder in enumerate(folders):
    cell = Cell(folder, json.loads((folder / "request.json").read_text()))
    program = read_program(folder / "graph.json")
    try:
        if number == 0:
            adapter_type.info(cell)
        adapter = adapter_type.of(program)(program, cell)
        exam.sit(adapter, program, last_step=None, cell_folder=folder)
        print("answer: ok", flush=True)
    except Unsupported as error:
        print(f"answer: unsupported {error}", flush=True)
    except Exception as error:
        traceback.print_exc()
        print(f"answer: failed {error!r}", flush=True)
