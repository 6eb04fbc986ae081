"""The share of a core that the conductor uses while its worker is timed."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from report_rows import rows

MAX_SHARE = 0.01


def conductor_share(assay: Path) -> float:
    """Watch a run between its first timed block and its last."""
    with tempfile.TemporaryDirectory(prefix="assay-overhead-") as folder:
        report = Path(folder) / "conductor.json"
        command = [assay, "run", "--workload", "mlp", "--backend", "onednn", "--mode", "graph", "--forks", 1]
        command += ["--spare-rounds", 0, "--dataset", "synthetic", "--check=false", "--blocks", 100]
        command += ["--out", report]
        process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen: list[tuple[int, int]] = []  # monotonic time and processor time, ns

        def watch() -> None:
            while process.poll() is None:
                try:
                    tasks = [
                        task.read_text() for task in Path(f"/proc/{process.pid}/task").glob("*/schedstat")
                    ]
                except OSError:
                    return
                seen.append((time.monotonic_ns(), sum(int(task.split()[0]) for task in tasks)))
                time.sleep(0.05)

        watcher = threading.Thread(target=watch)
        watcher.start()
        process.wait()
        watcher.join()
        (cell,) = json.loads(report.read_text())["cells"]
    blocks = [block for block in rows(cell["forks"][0]["blocks"]) if block["kind"] == "timed"]
    within = [one for one in seen if blocks[0]["begin_ns"] <= one[0] <= blocks[-1]["end_ns"]]
    return (within[-1][1] - within[0][1]) / (within[-1][0] - within[0][0])
