"""Something is exchanged during a run or before its --resume: forks of both are never in one cell."""

from __future__ import annotations

import random
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from assay_campaign.bench import (
    ROOT,
    Bench,
    Case,
    Done,
    Place,
    fault_run,
    read_report,
    remove,
    run_all,
    wait_for,
)

REFUSED, INCOMPLETE = 2, 4


def fresh(bench: Bench) -> tuple[Place, Path]:
    place = bench.place("exchanges")
    for old in [*place.out.iterdir(), *place.tmp.iterdir()]:
        remove(old)
    return place, place.out / "report.json"


def refused(place: Place, case: Case, done: Done, report: Path, words: str) -> None:
    """Expect that the run was refused before it measured, and that its report is as it was."""
    case.expect(done.code == REFUSED, f"wanted 2, got {done.told}")
    case.expect(words in done.err, f"'{words}' is not in the message: {done.told}")
    case.expect(not place.why_invalid(report), f"the report is invalid: {place.why_invalid(report)}")
    left = place.survivors() + place.leftovers()
    case.expect(not left, f"left: {', '.join(left)}")


def own_backend(place: Place, bench: Bench) -> tuple[Path, dict[str, str]]:
    """Return a script of a copy of the backend `fault`, and the environment that has the copy."""
    remove(place.folder / "backends")
    copy = place.folder / "backends/fault"
    shutil.copytree(bench.backends / "fault", copy)
    script = copy / "worker.py"
    script.write_text("one = 1\n")
    return script, place.environment(ASSAY_BACKENDS=str(copy.parent))


def array(header: str, shape: tuple[int, ...], content: bytes) -> bytes:
    """Return a file of NumPy's format, version 1.0."""
    text = f"{{'descr': '{header}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (63 - (len(text) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + content


def write_arrays(folder: Path, draw: random.Random) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    samples = 200
    pixels = draw.randbytes(samples * 28 * 28)
    labels = struct.pack(f"<{samples}q", *(index % 10 for index in range(samples)))
    (folder / "inputs.npy").write_bytes(array("|u1", (samples, 1, 28, 28), pixels))
    (folder / "labels.npy").write_bytes(array("<i8", (samples,), labels))


def write_images(folder: Path, draw: random.Random) -> None:
    """Write images that look alike; nothing is read after their end marker."""
    image = (ROOT / "tests/fuzz/corpus/jpeg/rgb.jpg").read_bytes()
    for index in range(40):
        file = folder / str(index % 2) / f"{index}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(image + draw.randbytes(8))


def run_on(name: str, folder: Path, mode: str, *more: object) -> list[object]:
    """Return the arguments of a short run on a data set of one's own."""
    data: list[object] = ["--dataset", name, "--data", folder]
    if name == "images":
        data += ["--workload", "cifar10-cnn", "--image-size", 32]
    else:
        data += ["--workload", "lenet5"]
    how = ["--batch", 8, "--backend", "fault", "--mode", mode, "--threads", 1, "--spare-rounds", 0]
    return ["run", *data, *how, "--blocks", 3, "--check=false", *more]


def data_before_a_resume(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    name, write = case.random.choice([("npy", write_arrays), ("images", write_images)])
    case.counts[f"of {name}"] += 1
    data = place.out / "data"
    write(data / name, case.random)
    run = run_on(name, data, "good")
    done = place.assay(*run, "--forks", 1, "--out", report)
    case.expect(done.code == 0, done.told)
    write(data / name, case.random)
    again = place.assay(*run, "--forks", 2, "--resume", report, "--out", report)
    refused(place, case, again, report, "the checksum of the data set")


def images_between_two_forks(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    data = place.out / "data"
    write_images(data / "images", case.random)
    run = run_on("images", data, "slow", "--forks", 6, "--out", report)
    process = place.start(place.command(*run))
    wait_for_forks(process, report)
    write_images(data / "images", case.random)
    code, _ = wait_for(process, 120)
    case.expect(code == INCOMPLETE, f"exit code {code}")
    case.expect(not place.why_invalid(report), f"the report is invalid: {place.why_invalid(report)}")
    for cell in read_report(report)["cells"]:
        case.expect(cell["reason_code"] == "data_changed", f"{cell['reason_code']}: {cell['reason']}")


def adapter_before_a_resume(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    script, environment = own_backend(place, bench)
    done = place.assay(*fault_run("good", "--out", report, forks=1), env=environment)
    case.expect(done.code == 0, done.told)
    script.write_text("two = 2\n")
    again = place.assay(*fault_run("good", "--out", report, "--resume", report, forks=2), env=environment)
    refused(place, case, again, report, "the scripts of the backend fault changed")


def adapter_between_two_forks(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    script, environment = own_backend(place, bench)
    process = place.start(place.command(*fault_run("slow", "--out", report, forks=6)), env=environment)
    wait_for_forks(process, report)
    script.write_text("two = 2\n")
    code, _ = wait_for(process, 120)
    case.expect(code == INCOMPLETE, f"exit code {code}")
    case.expect(not place.why_invalid(report), f"the report is invalid: {place.why_invalid(report)}")
    for cell in read_report(report)["cells"]:
        case.expect(cell["reason_code"] == "backend_changed", f"{cell['reason_code']}: {cell['reason']}")


def report_by_link(bench: Bench, case: Case) -> None:
    report_by_another_name(bench, case, "link.json", lambda report, other: other.symlink_to(report))


def report_by_linked_folder(bench: Bench, case: Case) -> None:
    def link_folder(report: Path, other: Path) -> None:
        other.parent.symlink_to(report.parent)

    report_by_another_name(bench, case, "folder/report.json", link_folder)


def report_by_hard_link(bench: Bench, case: Case) -> None:
    """Of the file that is there before the run, which replaces it after every fork."""
    report_by_another_name(bench, case, "hard.json", lambda report, other: other.hardlink_to(report))


def report_by_another_name(bench: Bench, case: Case, name: str, link: Callable[[Path, Path], None]) -> None:
    place, report = fresh(bench)
    report.touch()
    folder = place.out / "other"
    folder.mkdir()
    other = folder / name
    link(report, other)
    process = place.start(place.command(*fault_run("slow", "--out", report, forks=20)))
    wait_for_forks(process, report)
    done = place.assay(*fault_run("good", "--out", other, forks=1))
    case.expect(done.code == REFUSED, done.told)
    case.expect("is being written by another run" in done.err, done.told)
    process.send_signal(signal.SIGINT)
    wait_for(process, 60)
    case.expect(not place.why_invalid(report), f"the report is invalid: {place.why_invalid(report)}")


def wait_for_forks(process: subprocess.Popen[bytes], report: Path) -> None:
    until = time.monotonic() + 60
    while process.poll() is None:
        is_written = report.exists() and report.stat().st_size > 0
        if is_written and any(cell["forks"] for cell in read_report(report)["cells"]):
            return
        if time.monotonic() > until:
            raise TimeoutError("no fork after 60 s")
        time.sleep(0.02)


CASES = [
    data_before_a_resume,
    images_between_two_forks,
    adapter_before_a_resume,
    adapter_between_two_forks,
    report_by_link,
    report_by_linked_folder,
    report_by_hard_link,
]


def hold(bench: Bench) -> None:
    run_all(bench, CASES)
