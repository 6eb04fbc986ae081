"""Reports with everything that a picture can show, made from a generator: `assay validate` accepts them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from statistics import median
from typing import Any

from report_form import columns, version_2

Json = dict[str, Any]
SECOND = 1_000_000_000
WIDE = 6  # forks that give an interval


def metric(values: Iterable[float | None], unit: str, hint: str, reason: str = "") -> Json:
    """One estimate over forks; null where a fork has no value."""
    given = list(values)
    found = [value for value in given if value is not None]
    if not found or len(found) < len(given):
        out: Json = {"value": None, "unit": unit, "lower": None, "upper": None, "confidence": None, "n": 0}
        return out | {"hint": hint, "reason": reason or "not measured"}
    bounds = (min(found), max(found)) if WIDE <= len(found) <= 8 else (None, None)
    confidence = 1 - 2 * 0.5 ** len(found) if bounds[0] is not None else None
    out = {
        "value": median(found),
        "unit": unit,
        "lower": bounds[0],
        "upper": bounds[1],
        "confidence": confidence,
    }
    return out | {"n": len(found), "hint": hint}


def rate_of(amount: float, time: Json) -> Json:
    """Give the metric of an amount over a metric of time."""
    lower, upper = (amount / time[bound] if time[bound] else None for bound in ("upper", "lower"))
    rate = {"value": amount / time["value"], "unit": "1/s", "lower": lower, "upper": upper}
    return time | rate | {"hint": "rate"}


class Maker:
    """Makes cells; the same seed makes the same cells."""

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)
        self.now = 10 * SECOND

    def block(self, kind: str, step: float, steps: int, epoch: int = 0, loss: float = 1.0) -> Json:
        begin = self.now
        self.now += max(1, round(step * steps * SECOND))
        times = {"kind": kind, "epoch": epoch, "steps": steps, "begin_ns": begin, "end_ns": self.now}
        counts = {
            "wait_ns": 0,
            "cpu_ns": 2 * (self.now - begin),
            "involuntary_switches": 0,
            "major_faults": 0,
        }
        return times | counts | {"steal_ns": 0, "loss": loss}

    def fork(self, number: int, blocks: list[Json], flags: tuple[str, ...] = ()) -> Json:
        return {
            "round": number,
            "seed": 1 + number,
            "status": "ok",
            "reason": "",
            "log_tail": "",
            "flags": list(flags),
            "compile_seconds": 0.25,
            "blocks": blocks,
            "evaluations": [],
            "latencies_ns": [],
            "samples": [],
            "host_peak_rss": 90_000_000,
            "memory": {"persistent": 4_000_000, "planned_arena": 8_000_000},
            "settings": {"threads": "2"},
            "parameters_digest": "ab12",
            "operators": [],
        }

    def steps_forks(self, step: float, count: int, blocks: int, flags: tuple[str, ...] = ()) -> list[Json]:
        forks: list[Json] = []
        for number in range(count):
            here = step * self.random.uniform(0.97, 1.03)
            made = [self.block("warm_up", here * 1.2, 20)]
            made += [self.block("timed", here * self.random.uniform(0.98, 1.02), 20) for _ in range(blocks)]
            forks.append(self.fork(number, made, flags))
        return forks

    def ranks_forks(self, step: float, count: int, ranks: int, exchange: Json | None) -> list[Json]:
        """Forks of several ranks, which are equally slow; each has the same times of its exchange, if any."""
        forks = self.steps_forks(step, count, 3)
        for fork in forks:
            rows = fork["blocks"]
            own = [row | {"cpu_ns": row["cpu_ns"] // ranks} for row in rows]
            for row, part in zip(rows, own, strict=True):
                row["cpu_ns"] = ranks * part["cpu_ns"]
            record: Json = {"cores": "0", "blocks": columns(own), "compile_seconds": 0.25}
            record |= {"host_peak_rss": 90_000_000} | ({"exchange": exchange} if exchange else {})
            fork["ranks"] = [{"rank": rank} | record for rank in range(ranks)]
        return forks

    def epoch_forks(self, step: float, count: int, epochs: int) -> list[Json]:
        forks: list[Json] = []
        for number in range(count):
            first = self.now
            blocks: list[Json] = []
            evaluations: list[Json] = []
            for epoch in range(1, epochs + 1):
                here = step * self.random.uniform(0.98, 1.02) * (1.4 if epoch == 1 else 1)
                loss = 2.0 * 0.6**epoch + self.random.uniform(0, 0.02)
                blocks.append(self.block("timed", here, 100, epoch, loss))
                self.now += SECOND // 20
                for split, off in (("train", 0.01), ("validation", 0.0), ("test", -0.01)):
                    score = round(0.9 - 0.4 * 0.5**epoch + off + self.random.uniform(-0.01, 0.01), 3)
                    evaluations.append(
                        {"epoch": epoch, "split": split, "samples": 1000, "loss": loss, "accuracy": score}
                        | {"seconds": 0.05}
                    )
            fork = self.fork(number, blocks)
            fork["evaluations"] = evaluations
            span = self.now - first
            fork["samples"] = [
                {
                    "time_ns": first + span * i // 12,
                    "worker_cpu": 1.9 if i % 4 else 1.1,
                    "worker_rss": 90_000_000,
                }
                | {"processes": 1, "frequency_hz": 2.5e9}
                for i in range(12)
            ]
            forks.append(fork)
        return forks

    def cell(self, backend: str, mode: str, kind: str, forks: list[Json], **axes: Any) -> Json:
        a: Json = {"workload": "lenet5", "device": "cpu", "task": "train", "precision": "fp32"}
        a |= {"layout": "native", "batch": 200, "dataset": "fashion-mnist", "loader": "resident"}
        a |= {"loader_workers": 0, "optimizer": "adam", "threads": 2, "compile_cache": "cold"}
        a |= {"deterministic": False, "measure": "steps", "backend": backend, "mode": mode} | axes
        if "size" in a:
            parts = [
                a["workload"],
                backend,
                a["device"],
                mode,
                a["task"],
                a["precision"],
                a["layout"],
                a["size"],
            ]
            name = "/".join([*parts, a["cache"], f"t{a['threads']}", a["measure"]])
        else:
            loader = a["loader"] if a["loader"] == "resident" else f"{a['loader']}-w{a['loader_workers']}"
            parts = [a["workload"], backend, a["device"], mode, a["task"], a["precision"], a["layout"]]
            parts += [
                f"b{a['batch']}",
                a["dataset"],
                loader,
                a["optimizer"],
                f"t{a['threads']}",
                a["measure"],
            ]
            name = "/".join(parts)
        cell: Json = {"id": name, **a, "kind": kind, "status": "ok", "reason": "", "flags": []}
        cell |= {"reproduce": f"assay run --workload {a['workload']} --backend {backend} --mode {mode}"}
        cell |= {
            "backend_version": "1.0",
            "libraries": [{"name": backend, "version": "1.0"}],
            "published": [],
        }
        cell["equivalence"] = self.equivalence()
        flags = sorted({flag for fork in forks for flag in fork["flags"]})
        cell["flags"] = [flag for flag in flags if 2 * sum(flag in f["flags"] for f in forks) > len(forks)]
        cell["metrics"] = self.metrics(cell, forks)
        cell["forks"] = forks
        return cell

    def equivalence(self) -> Json:
        names = [
            "check/training/loss",
            "check/gradient/conv1.weight",
            "check/gradient/fc1.weight",
            "verify/losses",
        ]
        tensors = []
        for name in names:
            ratio = self.random.choice([0.01, 0.05, 0.2, 0.4])
            errors = {"max_error": ratio * 1e-6, "max_bound": 1e-6, "l2_error": 0.0, "l2_bound": 1e-6}
            tensors.append({"name": name} | errors | {"ratio": ratio * 1e-6 / 1e-6})
        worst = max(float(tensor["ratio"]) for tensor in tensors)
        return {"checked": True, "passed": True, "worst": worst, "reason": "", "tensors": tensors}

    def metrics(self, cell: Json, forks: list[Json]) -> Json:
        def steps(fork: Json) -> float:
            last = max(b["epoch"] for b in fork["blocks"])
            timed = [b for b in fork["blocks"] if b["kind"] == "timed" and not (last > 1 and b["epoch"] == 1)]
            return median(1e-9 * (b["end_ns"] - b["begin_ns"]) / b["steps"] for b in timed)

        def epochs(fork: Json) -> list[float]:
            return [1e-9 * (b["end_ns"] - b["begin_ns"]) for b in fork["blocks"] if b["epoch"]]

        def last(fork: Json, split: str, field: str) -> float | None:
            found = [e[field] for e in fork["evaluations"] if e["split"] == split]
            return found[-1] if found else None

        def later(fork: Json) -> float | None:
            each = epochs(fork)
            return sum(each[1:]) / (len(each) - 1) if len(each) > 1 else None

        step = [steps(fork) for fork in forks]
        compiled = [fork["compile_seconds"] for fork in forks]
        each = [epochs(fork) for fork in forks]
        first = [c + e[0] if e else None for c, e in zip(compiled, each, strict=True)]
        whole = [c + sum(e) if e else None for c, e in zip(compiled, each, strict=True)]
        out = {
            "step_time": metric(step, "s", "duration"),
            "samples_per_second": rate_of(cell["batch"], metric(step, "s", "duration")),
            "first_epoch_time": metric(first, "s", "duration", "steps were timed, not epochs"),
            "epoch_time": metric(map(later, forks), "s", "duration", "steps were timed, not epochs"),
            "training_time": metric(whole, "s", "duration", "steps were timed, not epochs"),
            "compile_time": metric(compiled, "s", "duration"),
            "host_peak_rss": metric((fork["host_peak_rss"] for fork in forks), "B", "bytes"),
            "planned_arena": metric((fork["memory"]["planned_arena"] for fork in forks), "B", "bytes"),
        }
        if all("framework_peak" in fork["memory"] for fork in forks):
            out["framework_peak"] = metric((fork["memory"]["framework_peak"] for fork in forks), "B", "bytes")
        for split in ("train", "validation", "test"):
            values = [last(fork, split, "accuracy") for fork in forks]
            out[f"{split}_accuracy"] = metric(
                values, "1", "percentage", "evaluated only where epochs are run"
            )
        return out

    def op(self, workload: str, backend: str, kind: str, size: str, nbytes: float, flops: float) -> Json:
        work = {"flops": flops, "bytes": nbytes, "peak_flops": 1e11, "copy_bandwidth": 2e10}
        slow = {"bare": 1.5, "framework": 4.0}.get(kind, 8.0)
        step = slow * max(flops / 1e11, nbytes / 2e10) + (1e-6 if kind == "bare" else 8e-6)
        axes = {"workload": workload, "task": "infer", "optimizer": "", "dataset": "", "batch": 1}
        mode = "graph" if kind == "bare" else "eager"
        forks = self.steps_forks(step, WIDE, 5)
        return self.cell(backend, mode, kind, forks, **axes, size=size, cache="warm", work=work)


EXCHANGE = {"gradient_bytes": 4_000_000, "steps": 10}
EXCHANGE_TIMES = {"step_seconds": 6e-3, "local_seconds": 4.5e-3, "bare_seconds": 2e-3}


def in_ranks(m: Maker) -> list[Json]:
    """Make cells of 1, 2 and 4 ranks; only one backend measured what its exchange costs."""
    cells: list[Json] = []
    for backend, mode in (("torch", "eager"), ("jax", "jit")):
        for ranks in (1, 2, 4):
            step, axes = 1e-2 / ranks**0.8, {"workload": "mlp", "batch": 512, "threads": 1}
            if ranks == 1:
                cells.append(m.cell(backend, mode, "framework", m.steps_forks(step, WIDE, 3), **axes))
                continue
            exchange = EXCHANGE | {name: [time] * 3 for name, time in EXCHANGE_TIMES.items()}
            forks = m.ranks_forks(step, WIDE, ranks, exchange if backend == "torch" else None)
            cell = m.cell(backend, mode, "framework", forks, **axes)
            cell |= {"variant": {"ranks": str(ranks)}}
            cell["id"] = cell["id"].replace("/steps", f"/ranks={ranks}/steps")
            if backend == "torch":
                whole, local, bare = EXCHANGE_TIMES.values()
                exposed = whole - local
                times = {"local_step_time": local, "bare_exchange_time": bare}
                times |= {"exposed_exchange_time": exposed}
                shares = {"exchange_share": exposed / whole, "hidden_exchange_share": 1 - exposed / bare}
                costs = {name: metric([time] * WIDE, "s", "duration") for name, time in times.items()}
                costs |= {name: metric([share] * WIDE, "1", "percentage") for name, share in shares.items()}
                cell["metrics"] |= costs
            cells.append(cell)
    return cells


def unrun(cell: Json, status: str, reason: str) -> Json:
    """Make the cell one that was not timed."""
    checked = status == "wrong_result"
    equivalence: Json = {"checked": checked, "passed": False, "worst": 0.0, "reason": "", "tensors": []}
    if checked:
        errors = {"max_error": 3.5e-7, "max_bound": 1e-7, "l2_error": 0.0, "l2_bound": 1e-7, "ratio": 3.5}
        tensors = [{"name": "check/gradient/conv1.weight"} | errors]
        equivalence |= {"worst": 3.5, "tensors": tensors, "reason": reason}
    return cell | {"status": status, "reason": reason, "forks": [], "metrics": {}, "equivalence": equivalence}


def report(cells: list[Json], **run: Any) -> Json:
    about: Json = {"command_line": ["assay", "run"], "config": {"title": "A made report"}}
    about |= {"start": "2026-01-02T03:04:05Z", "end": "2026-01-02T03:14:05Z", "commit": "abc", "dirty": False}
    about |= {"version": "0.1.0", "complete": True} | run
    unsteady = [
        {"what": "the clock frequency is not under this system's control", "remedy": "compare ratios"}
    ]
    cache = {"level": 1, "type": "Data", "bytes": 32768, "line_bytes": 64, "shared_by": 1, "count": 2}
    cpu = {"model": "a processor", "cores": 2, "caches": [cache]}
    environment: Json = {"cpu": cpu, "gpus": [], "unsteady": unsteady}
    return version_2({"run": about, "environment": environment, "cells": cells}) | {"rules": 4}


STEPS = {("onednn", "graph", "bare"): 1e-5, ("torch", "compile", "framework"): 2.2e-5}
STEPS |= {("torch", "eager", "framework"): 4e-5, ("jax", "jit", "framework"): 3.1e-5}


def everything() -> Json:
    """Make a report for every picture: batches, epochs, operators, plans, and what went wrong."""
    m = Maker()
    cells: list[Json] = []
    for batch in (32, 64, 128, 256):
        for (backend, mode, kind), sample in STEPS.items():
            step = 2e-4 + sample * batch
            cells.append(
                m.cell(backend, mode, kind, m.steps_forks(step, WIDE, 5), workload="mlp", batch=batch)
            )
    cells.append(m.cell("mxnet", "hybridize", "framework", m.steps_forks(5e-3, WIDE, 5, ("throttled",)),
                        workload="mlp", batch=64))  # fmt: skip
    cells[1]["published"] = [
        {"metric": "step_time", "value": 1.8, "unit": "1", "to": cells[0]["id"]}
        | {"source": "Somebody et al. 2020, table 2", "statement": ""},
        {"metric": "samples_per_second", "value": 30000.0, "unit": "1/s", "to": None}
        | {"source": "Somebody else 2021", "statement": "at most"},
    ]
    for (backend, mode, kind), sample in STEPS.items():
        forks = m.epoch_forks(200 * sample, WIDE, 5)
        cells.append(m.cell(backend, mode, kind, forks, measure="epochs:5", loader="harness"))
    sizes = {
        "naive": 18_800_000,
        "in_place": 10_200_000,
        "co_share_only": 9_100_000,
        "co_share": 6_600_000,
        "lower_bound": 6_300_000,
    }
    for name, size in sizes.items():
        cells[-4]["metrics"][f"plan_{name}"] = metric([size], "B", "bytes")
    cells[-4]["metrics"]["plan_saving"] = metric([18.8 / 6.6], "1", "ratio")
    for backend, kind in (("onednn", "bare"), ("torch", "framework")):
        for n in (16, 64, 256, 1024):
            cells.append(m.op("op/gemm", backend, kind, f"m{n}", 12.0 * n * n, 2.0 * n**3))
        for n in (256, 65536, 1048576):
            cells.append(m.op("op/relu", backend, kind, str(n), 8.0 * n, 1.0 * n))
    lost = m.cell("tensorflow", "graph", "framework", m.steps_forks(1e-3, 1, 1), workload="mlp", batch=64)
    wrong = m.cell("numpy", "eager", "framework", m.steps_forks(1e-3, 1, 1), workload="mlp", batch=64)
    reason = "TensorFlow is not set up; get it: scripts/setup --framework tensorflow"
    cells.append(unrun(lost, "unavailable", reason))
    cells.append(unrun(wrong, "wrong_result", "check/gradient/conv1.weight is 3.5 times its bound"))
    return report(cells)


def studies() -> Json:
    """Make a report for the pictures of studies: threads, latencies, schedules, profiles, networks."""
    m = Maker(2)
    cells: list[Json] = []
    for threads in (1, 2, 4):
        for (backend, mode, kind), sample in STEPS.items():
            forks = m.steps_forks((2e-4 + 200 * sample) / threads**0.7, WIDE, 5)
            cells.append(m.cell(backend, mode, kind, forks, threads=threads))
    for (backend, mode, kind), sample in STEPS.items():
        forks = m.steps_forks(2e-4 + sample, WIDE, 5)
        for fork in forks:
            fork["latencies_ns"] = [round(1e9 * sample * m.random.uniform(1, 3)) for _ in range(7000)]
        cells.append(m.cell(backend, mode, kind, forks, workload="mlp", task="infer", batch=1, threads=1))
    for length in ("", "16"):
        for (backend, mode, kind), sample in STEPS.items():
            forks = m.steps_forks(32 * sample, WIDE, 5)
            for fork in forks:
                fork["latencies_ns"] = [round(1e9 * sample * m.random.uniform(1, 3)) for _ in range(700)]
                fork["prefills_ns"] = [round(4e9 * sample)] * 10
            cell = m.cell(backend, mode, kind, forks, workload="nanogpt", task="decode", batch=4)
            if length:
                name = cell["id"].replace("/steps", f"/sequence-length={length}/steps")
                cell |= {"id": name, "variant": {"sequence-length": length}}
            cells.append(cell)
    cells.append(m.cell("onednn", "graph", "bare", m.steps_forks(1e-3, WIDE, 5), workload="mlp", batch=32))
    cells += in_ranks(m)
    for schedule in ("", "every:2x0.9"):
        for backend in ("torch", "mxnet"):
            forks = m.epoch_forks(2e-3, WIDE, 4)
            cell = m.cell(backend, "eager", "framework", forks, measure="epochs:4", loader="harness")
            variant = {"variant": {"schedule": schedule}} if schedule else {}
            name = cell["id"].replace("/epochs", f"/schedule={schedule}/epochs") if schedule else cell["id"]
            cells.append(cell | variant | {"id": name})
    profiled = m.steps_forks(1e-3, WIDE, 5)
    for fork in profiled:
        seconds = {"convolution": 4e-4, "relu": 1e-4, "linear": 3e-4}
        fork["operators"] = [
            {"node": f"{op}1", "op": op, "seconds": 10 * each * m.random.uniform(0.9, 1.1), "calls": 10}
            for op, each in seconds.items()
        ]
    cells.append(m.cell("onednn", "eager", "framework", profiled))
    for workload, naive in (("alexnet", 1.3e9), ("vgg_a", 8.7e9)):
        cell = m.cell("reference", "graph", "oracle", m.steps_forks(1e-1, 1, 1), workload=workload)
        sizes = {"naive": naive, "in_place": naive / 1.5}
        sizes |= {"co_share_only": naive / 2, "co_share": naive / 2.4, "lower_bound": naive / 2.5}
        for name, size in sizes.items():
            cell["metrics"][f"plan_{name}"] = metric([round(size)], "B", "bytes")
        cell["metrics"]["plan_saving"] = metric([2.4], "1", "ratio")
        source = {"source": "Somebody 2015", "statement": "", "to": None}
        cell["published"] = [{"metric": "plan_saving", "value": 2.0, "unit": "1"} | source]
        cells.append(cell)
    return report(cells) | {"rules": 2}


def large(count: int, forks: int = 3, blocks: int = 20) -> Json:
    """Make a report of `count` cells: many workloads of four backends each."""
    m = Maker()
    cells: list[Json] = []
    kinds = list(STEPS.items())
    for i in range(count):
        (backend, mode, kind), sample = kinds[i % len(kinds)]
        size = i // len(kinds)
        made = m.steps_forks(2e-4 + sample, forks, blocks)
        cells.append(m.cell(backend, mode, kind, made, workload=f"net{size // 8}", batch=2 ** (size % 8)))
    return report(cells)
