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
    words: str  # in the reason
    options: tuple[str, ...] = ()


SHORT = ("--time-limit", "2")  # for modes that the limit ends
CHECKED = ("--check=true", "--batch", "8", "--distinct", "1")

# One line per variant.
VARIANTS = (
    Variant("crash", "crashed", "SIGSEGV"),
    Variant("crash_at_hello", "crashed", "SIGSEGV"),
    Variant("crash_once", "crashed", "of 2 forks crashed"),
    Variant("killed", "crashed", "SIGKILL"),
    Variant("exits", "failed", "no such luck"),
    Variant("half_line", "failed", ""),
    Variant("garbage", "failed", ""),
    Variant("long_line", "failed", ""),
    Variant("wrong_event", "failed", ""),
    Variant("chatty", "timed_out", "2 s", SHORT),
    Variant("hang", "timed_out", "2 s", SHORT),
    Variant("hang_at_hello", "timed_out", "2 s", SHORT),
    Variant("deaf", "failed", "", SHORT),
    Variant("old_protocol", "failed", "protocol"),
    Variant("impostor", "failed", "somebody"),
    Variant("bad_alloc", "out_of_memory", ""),
    Variant("out_of_memory", "out_of_memory", "2 GiB"),
    Variant("unsupported", "unsupported", "stride 3"),
    Variant("fails_at_bye", "failed", "while it quit"),
    Variant("nan_loss", "failed", "loss is not finite"),
    Variant("no_clock", "failed", "clock.json"),
    Variant("early_clock", "failed", "before the conductor sent"),
    Variant("late_clock", "failed", "after the worker reported"),
    Variant("overlap", "failed", "clock.json"),
    Variant("no_length", "failed", "clock.json"),
    Variant("thrice", "failed", "clock.json"),
    Variant("no_steps", "failed", "clock.json"),
    Variant("negative_steps", "failed", "clock.json"),
    Variant("huge_steps", "failed", "steps in"),
    Variant("other_kind", "failed", "clock.json"),
    Variant("long_wait", "failed", "clock.json"),
    Variant("negative_wait", "failed", "clock.json"),
    Variant("negative_cpu", "failed", "clock.json"),
    Variant("negative_latency", "failed", "clock.json"),
    Variant("other_split", "failed", "clock.json"),
    Variant("accuracy_of_seven", "failed", "clock.json"),
    Variant("incomplete", "failed", "clock.json"),
    Variant("other_schema", "failed", "clock.json"),
    Variant("no_blocks", "failed", "clock.json"),
    Variant("warm_up_alone", "failed", "clock.json"),
    Variant("a_block_less", "failed", "clock.json"),
    Variant("fifo_clock", "failed", "clock.json"),
    Variant("endless_clock", "failed", "clock.json"),
    Variant("large_clock", "failed", "clock.json"),
    Variant("linked_clock", "failed", "clock.json"),
    Variant("deep_clock", "failed", "clock.json"),
    Variant("evil_error", "failed", "owned"),
    Variant("no_answers", "wrong_result", "verify.safetensors", CHECKED),
    Variant("fifo_answers", "wrong_result", "verify.safetensors", CHECKED),
    Variant("endless_answers", "wrong_result", "verify.safetensors", CHECKED),
    Variant("linked_answers", "wrong_result", "verify.safetensors", CHECKED),
    Variant("deep_answers", "wrong_result", "verify.safetensors", CHECKED),
    Variant("long_answers", "wrong_result", "verify.safetensors", CHECKED),
    Variant("sparse_answers", "wrong_result", "verify.safetensors", CHECKED),
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
        case.expect(variant.words in hostile["reason"], f"{variant.mode}: '{variant.words}' is not in {said}")
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
