"""Hostile workers: each gives a row with a reason, the next cell is measured, and no process survives."""

from __future__ import annotations

import re
from dataclasses import dataclass

from assay_campaign.bench import CONTROL, Bench, Case, fault_run, read_report, remove

INCOMPLETE = 4


@dataclass(frozen=True)
class Variant:
    """A mode of tests/faults/fault_worker.cpp, and the expected result of its cell."""

    mode: str
    status: str
    code: str  # of the reason
    options: tuple[str, ...] = ()


SHORT = ("--time-limit", "2")  # for modes that the limit ends
CHECKED = ("--check=true", "--batch", "8", "--distinct", "1")

# One line per variant.
VARIANTS = (
    Variant("crash", "crashed", "killed_by_signal"),
    Variant("crash_at_hello", "crashed", "killed_by_signal"),
    Variant("crash_once", "crashed", "killed_by_signal"),
    Variant("killed", "crashed", "killed_from_outside"),
    Variant("exits", "failed", "worker_exited"),
    Variant("half_line", "failed", "worker_exited"),
    Variant("garbage", "failed", "protocol_broken"),
    Variant("long_line", "failed", "protocol_broken"),
    Variant("wrong_event", "failed", "protocol_broken"),
    Variant("chatty", "timed_out", "time_limit", SHORT),
    Variant("hang", "timed_out", "time_limit", SHORT),
    Variant("hang_at_hello", "timed_out", "time_limit", SHORT),
    Variant("deaf", "failed", "?", SHORT),
    Variant("old_protocol", "failed", "protocol_version"),
    Variant("impostor", "failed", "protocol_broken"),
    Variant("bad_alloc", "out_of_memory", "worker_out_of_memory"),
    Variant("out_of_memory", "out_of_memory", "worker_out_of_memory"),
    Variant("unsupported", "unsupported", "worker_unsupported"),
    Variant("fails_at_bye", "failed", "worker_exited"),
    Variant("nan_loss", "failed", "loss_not_finite"),
    Variant("no_clock", "failed", "clock_refused"),
    Variant("early_clock", "failed", "clock_refused"),
    Variant("late_clock", "failed", "clock_refused"),
    Variant("overlap", "failed", "clock_refused"),
    Variant("no_length", "failed", "clock_refused"),
    Variant("thrice", "failed", "clock_refused"),
    Variant("no_steps", "failed", "clock_refused"),
    Variant("negative_steps", "failed", "clock_refused"),
    Variant("huge_steps", "failed", "clock_refused"),
    Variant("other_kind", "failed", "clock_refused"),
    Variant("long_wait", "failed", "clock_refused"),
    Variant("negative_wait", "failed", "clock_refused"),
    Variant("negative_cpu", "failed", "clock_refused"),
    Variant("negative_latency", "failed", "clock_refused"),
    Variant("other_split", "failed", "clock_refused"),
    Variant("accuracy_of_seven", "failed", "clock_refused"),
    Variant("incomplete", "failed", "clock_refused"),
    Variant("other_schema", "failed", "clock_refused"),
    Variant("no_blocks", "failed", "clock_refused"),
    Variant("warm_up_alone", "failed", "clock_refused"),
    Variant("a_block_less", "failed", "clock_refused"),
    Variant("fifo_clock", "failed", "clock_refused"),
    Variant("endless_clock", "failed", "clock_refused"),
    Variant("large_clock", "failed", "clock_refused"),
    Variant("linked_clock", "failed", "clock_refused"),
    Variant("deep_clock", "failed", "clock_refused"),
    Variant("evil_error", "failed", "worker_failed"),
    Variant("no_answers", "wrong_result", "differs_from_oracle", CHECKED),
    Variant("fifo_answers", "wrong_result", "differs_from_oracle", CHECKED),
    Variant("endless_answers", "wrong_result", "differs_from_oracle", CHECKED),
    Variant("linked_answers", "wrong_result", "differs_from_oracle", CHECKED),
    Variant("deep_answers", "wrong_result", "differs_from_oracle", CHECKED),
    Variant("long_answers", "wrong_result", "differs_from_oracle", CHECKED),
    Variant("sparse_answers", "wrong_result", "differs_from_oracle", CHECKED),
    Variant("flood", "ok", ""),
    Variant("leaves_behind", "ok", ""),
    Variant("forks", "ok", ""),
    Variant("slow", "ok", ""),
)

OWNED = re.compile(r"^\s*::error::owned", re.MULTILINE)


def hold(bench: Bench) -> None:
    place = bench.place("workers")
    for case in bench.each_case():
        variant = VARIANTS[case.number % len(VARIANTS)]
        case.kind = variant.status
        report = place.out / "report.json"
        remove(report)
        options = [*variant.options, "--out", report]
        # The good cell comes last, and is not checked: the fault worker answers no exam.
        run = fault_run(f"{variant.mode},good", *options, forks=2)
        try:
            done = place.assay(*run, limit=120)
        except TimeoutError as error:
            case.expect(False, f"{variant.mode}: {error}")
            continue
        check(case, variant, done.code, done.out + done.err)
        if not report.exists():
            case.expect(False, f"{variant.mode}: no report: {done.told}")
            continue
        why = place.why_invalid(report)
        case.expect(not why, f"{variant.mode}: the report is invalid: {why}")
        hostile, good = read_report(report)["cells"]
        said = f"{hostile['status']}: {hostile['reason']}"
        case.expect(
            hostile["status"] == variant.status, f"{variant.mode}: wanted {variant.status}, got {said}"
        )
        code = hostile.get("reason_code", "")
        case.expect(code == variant.code, f"{variant.mode}: wanted {variant.code}, got {code}: {said}")
        case.expect(variant.status == "ok" or hostile["reason"] != "", f"{variant.mode}: no reason")
        if variant.options == CHECKED:  # the good worker does not answer the exam either
            case.expect(bool(good["reason"]), f"{variant.mode}: the next cell has no reason")
        else:
            wanted = (good["status"], len(good["forks"]))
            case.expect(
                wanted == ("ok", 2), f"{variant.mode}: the next cell is {good['status']}: {good['reason']}"
            )
        left = place.survivors() + place.leftovers()
        case.expect(not left, f"{variant.mode}: left: {', '.join(left)}")


def check(case: Case, variant: Variant, code: int, text: str) -> None:
    wanted = 0 if variant.status == "ok" else INCOMPLETE
    case.expect(code == wanted, f"{variant.mode}: exit code {code}: {text[-300:]!r}")
    case.expect("fault of the program" not in text, f"{variant.mode}: {text[-300:]!r}")
    if found := CONTROL.search(text):
        case.expect(False, f"{variant.mode}: prints the control character {found[0]!r}")
    case.expect(not OWNED.search(text), f"{variant.mode}: prints a line that a CI server obeys")
