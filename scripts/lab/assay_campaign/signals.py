"""The signals that a run may get, and bad standard descriptors."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from assay_campaign.bench import Bench, Case, Place, fault_run, read_report, remove, run_all, wait_for

RUN = fault_run("slow,good", forks=2)
LENGTH = 2.5  # seconds of such a run, at least
INCOMPLETE = 4


def fresh(bench: Bench) -> tuple[Place, Path]:
    place = bench.place("signals")
    for old in [*place.out.iterdir(), *place.tmp.iterdir()]:
        remove(old)
    return place, place.out / "report.json"


def check_left(place: Place, case: Case) -> None:
    """No process may be alive; the next run removes what is left in the temporary folder."""
    for survivor in place.survivors():
        case.expect(False, f"{survivor} lives")


def check_swept(place: Place, case: Case) -> None:
    left = place.leftovers()
    case.expect(not left, f"left: {', '.join(left)}")


def check_report(place: Place, case: Case, report: Path) -> bool:
    """Return whether there is a report; it must be valid."""
    if not report.exists():
        return False
    why = place.why_invalid(report)
    case.expect(not why, f"the report is invalid: {why}")
    return True


def is_complete(report: Path) -> bool:
    return report.exists() and bool(read_report(report)["run"]["complete"])


def interrupted(number: signal.Signals, group: bool) -> Callable[[Bench, Case], None]:
    def interrupt(bench: Bench, case: Case) -> None:
        place, report = fresh(bench)
        process = place.start(place.command(*RUN, "--out", report))
        time.sleep(case.random.uniform(0, LENGTH))
        if process.poll() is None:
            (os.killpg if group else os.kill)(process.pid, number)
        code, _ = wait_for(process, 60)
        check_left(place, case)
        check_swept(place, case)
        there = check_report(place, case, report)
        complete = is_complete(report)
        if code == INCOMPLETE:
            case.expect(there, "exit code 4, and the report is missing")
            case.counts["interrupted" if not complete else "came when all was measured"] += 1
        elif code == 0:
            case.expect(complete, "exit code 0, and the report is not complete")
            case.counts["ended before"] += 1
        else:  # before the run has begun, or after its report is written
            case.expect(code == -number, f"exit code {code}")
            case.expect(not there or complete, "ended by the signal, and the report is not complete")
            case.counts["ended by the signal itself"] += 1

    interrupt.__name__ = f"{number.name}{' to its group' if group else ''}"
    return interrupt


def three_interrupts(bench: Bench, case: Case) -> None:
    """The third ends the program at once."""
    place, report = fresh(bench)
    process = place.start(place.command(*RUN, "--out", report))
    wait_for_report(process, report)
    for _ in range(3):
        os.kill(process.pid, signal.SIGINT)
        time.sleep(case.random.uniform(0, 0.05))
    code, _ = wait_for(process, 60)
    check_left(place, case)
    check_report(place, case, report)
    if code == 0:  # on a busy machine the run may be over before the first
        case.expect(is_complete(report), "exit code 0, and the report is not complete")
        case.counts["ended before"] += 1
    else:
        # Signals that arrive while one is being delivered are merged.
        case.expect(code in (INCOMPLETE, 128 + signal.SIGINT), f"exit code {code}")
    place.assay(*fault_run("good", forks=1), "--out", report)
    check_swept(place, case)


def wait_for_report(process: subprocess.Popen[bytes], report: Path) -> None:
    until = time.monotonic() + 30
    while not report.exists() and process.poll() is None:
        if time.monotonic() > until:
            raise TimeoutError("no report after 30 s")
        time.sleep(0.005)


def ended_at_once(bench: Bench, case: Case) -> None:
    """SIGQUIT, SIGABRT and SIGSEGV from outside end the program like SIGKILL."""
    place, report = fresh(bench)
    number = case.random.choice([signal.SIGQUIT, signal.SIGABRT, signal.SIGSEGV])
    process = place.start(place.command(*RUN, "--out", report), preexec_fn=forbid_core)
    time.sleep(case.random.uniform(0, LENGTH))
    if process.poll() is None:
        os.kill(process.pid, number)
    code, _ = wait_for(process, 60)
    case.expect(code in (0, -number), f"exit code {code}")
    check_left(place, case)
    check_report(place, case, report)
    place.assay(*fault_run("good", forks=1), "--out", report)
    check_swept(place, case)


def forbid_core() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def broken_pipe_signal(bench: Bench, case: Case) -> None:
    unharmed(bench, case, signal.SIGPIPE)


def ignored_hangup(bench: Bench, case: Case) -> None:
    unharmed(bench, case, signal.SIGHUP, ignored=True)


def ignored_interrupt(bench: Bench, case: Case) -> None:
    unharmed(bench, case, signal.SIGINT, ignored=True)


def unharmed(bench: Bench, case: Case, number: signal.Signals, ignored: bool = False) -> None:
    """A signal that changes nothing."""
    place, report = fresh(bench)
    options = {"preexec_fn": lambda: signal.signal(number, signal.SIG_IGN)} if ignored else {}
    process = place.start(place.command(*RUN, "--out", report), **options)
    wait_for_report(process, report)
    for _ in range(3):
        time.sleep(case.random.uniform(0, LENGTH / 3))
        if process.poll() is None:
            os.kill(process.pid, number)
    whole(place, case, report, wait_for(process, 60)[0])


def whole(place: Place, case: Case, report: Path, code: int | None) -> None:
    case.expect(code == 0, f"exit code {code}")
    check_left(place, case)
    check_swept(place, case)
    check_report(place, case, report)
    case.expect(is_complete(report), "the report is not complete")


def stopped_and_continued(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    process = place.start(place.command(*RUN, "--out", report))
    for number in (signal.SIGSTOP, case.random.choice([signal.SIGSTOP, signal.SIGTSTP])):
        time.sleep(case.random.uniform(0, LENGTH / 3))
        if process.poll() is None:
            os.kill(process.pid, number)
            time.sleep(case.random.uniform(0, 0.5))
            os.kill(process.pid, signal.SIGCONT)
    whole(place, case, report, wait_for(process, 60)[0])


def closed_descriptors(bench: Bench, case: Case) -> None:
    """Any one, two or all of the three: the run continues."""
    place, report = fresh(bench)
    closed = [number for number in (0, 1, 2) if case.random.random() < 0.6] or [2]
    redirections = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number in closed)
    done = place.run(["sh", "-c", f'exec "$@" {redirections}', "sh", *place.command(*RUN, "--out", report)])
    case.counts[f"closed: {closed}"] += 1
    case.expect(
        done.cpu_seconds < 30, f"with {redirections} it took {done.cpu_seconds:.1f} s of processor time"
    )
    whole(place, case, report, done.code)


def full_descriptors(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    with Path("/dev/full").open("wb") as full:
        both = case.random.random() < 0.5
        done = place.run(
            place.command(*RUN, "--out", report), stdout=full if both else subprocess.DEVNULL, stderr=full
        )
    whole(place, case, report, done.code)


def reader_that_leaves(bench: Bench, case: Case) -> None:
    """Like `2>&1 | head -1`."""
    place, report = fresh(bench)
    reading, writing = os.pipe()
    process = place.start(place.command(*RUN, "--out", report), stdout=writing, stderr=writing)
    os.close(writing)
    if case.random.random() < 0.7:
        os.read(reading, 1)
    os.close(reading)
    whole(place, case, report, wait_for(process, 60)[0])


def output_that_nobody_takes(bench: Bench, case: Case) -> None:
    """A result that cannot be printed is an error with its own exit code."""
    place, report = fresh(bench)
    place.assay(*fault_run("good", forks=1), "--out", report)
    commands: list[list[object]] = [
        ["show", report],
        ["validate", report],
        ["compare", report, report],
        ["--help"],
        ["--version"],
    ]
    commands += [["list", "backends"], ["env"], ["show", report, "--format", "json"]]
    command = place.command(*case.random.choice(commands))
    with Path("/dev/full").open("wb") as full:
        done = place.run(command, stdout=full)
    case.expect(done.code == 2, f"{command[1:]} to a full disk: exit code {done.code}")
    case.expect("standard output" in done.err, f"{command[1:]} to a full disk: {done.told}")
    done = place.run(["sh", "-c", 'exec "$@" >&-', "sh", *command])
    case.expect(done.code == 2, f"{command[1:]} to a closed standard output: exit code {done.code}")


def report_that_standard_output_does_not_take(bench: Bench, case: Case) -> None:
    """The measured forks are kept in a copy."""
    place, _ = fresh(bench)
    with Path("/dev/full").open("wb") as full:
        done = place.run(place.command(*RUN, "--out", "-"), stdout=full)
    case.expect(done.code == 2, f"exit code {done.code}")
    copies = list(place.tmp.glob("assay-report-*/report.json"))
    case.expect(len(copies) == 1, f"there are {len(copies)} copies: {done.told}")
    for copy in copies:
        case.expect(str(copy) in done.err, f"the copy is not named: {done.told}")
        check_report(place, case, copy)
    check_left(place, case)
    for copy in copies:
        remove(copy.parent)
    check_swept(place, case)


def frozen_for_seconds(bench: Bench, case: Case) -> None:
    """The program and its worker stand still within timed blocks: the fork does not count."""
    place, report = fresh(bench)
    process = place.start(place.command(*fault_run("sleeps", forks=1), "--out", report))
    wait_for_report(process, report)
    time.sleep(1.3)  # its blocks take from about 0.6 s to 2.4 s
    stopped = [process.pid, *place.processes()]
    for number, pause in ((signal.SIGSTOP, case.random.uniform(1.5, 3)), (signal.SIGCONT, 0)):
        for one in stopped:
            os.kill(one, number)
        time.sleep(pause)
    whole(place, case, report, wait_for(process, 60)[0])
    for fork in (fork for cell in read_report(report)["cells"] for fork in cell["forks"]):
        case.expect("frozen" in fork["flags"], f"flags {fork['flags']}")
        case.expect(any("stood still" in text for text in fork.get("warnings", [])), "no warning")


CASES = [
    *(
        interrupted(number, group)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        for group in (False, True)
    ),
    three_interrupts,
    ended_at_once,
    broken_pipe_signal,
    ignored_hangup,
    ignored_interrupt,
    stopped_and_continued,
    frozen_for_seconds,
    closed_descriptors,
    full_descriptors,
    reader_that_leaves,
    output_that_nobody_takes,
    report_that_standard_output_does_not_take,
]


def hold(bench: Bench) -> None:
    run_all(bench, CASES)
