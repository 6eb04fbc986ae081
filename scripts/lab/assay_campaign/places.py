"""Bad places and limits: each is refused clearly, and no finished fork is lost."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay_campaign.bench import Bench, Case, Done, Place, fault_run, read_report, remove, run_all

REFUSED, INCOMPLETE = 2, 4
RUN = fault_run("good", forks=2)


def fresh(bench: Bench) -> tuple[Place, Path]:
    place = bench.place("places")
    for old in [*place.out.iterdir(), *place.tmp.iterdir()]:
        remove(old)
    return place, place.out / "report.json"


def check(place: Place, case: Case, done: Done, codes: tuple[int, ...], words: str = "") -> None:
    case.counts[f"exit code {done.code}"] += 1
    case.expect(done.code in codes, f"wanted {' or '.join(map(str, codes))}, got {done.told}")
    case.expect("fault of the program" not in done.err, done.told)
    if words and done.code != 0:
        case.expect(words in done.err, f"'{words}' is not in the message: {done.told}")
    left = place.survivors() + place.leftovers()
    case.expect(not left, f"left: {', '.join(left)}")


def check_report(place: Place, case: Case, report: Path, forks: int = 0) -> None:
    if not report.exists():
        case.expect(forks == 0, "the report is missing")
        return
    case.expect(not place.why_invalid(report), f"the report is invalid: {place.why_invalid(report)}")
    there = sum(len(cell["forks"]) for cell in read_report(report)["cells"])
    case.expect(there >= forks, f"{there} of {forks} forks are in {report.name}")


@dataclass(frozen=True)
class Mount:
    """A file system in a separate mount namespace, which only its process sees."""

    folder: Path
    options: str

    def wrap(self, command: list[str], first: str = "true") -> list[str]:
        """Return the command in the namespace, after the shell commands `first`."""
        at = shlex.quote(str(self.folder))
        script = f'mount -t tmpfs -o {self.options} tmpfs {at} && {{ {first}; }} && exec "$@"'
        return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command]


def why_no_mounts() -> str:
    """Return why separate file systems cannot be made; empty: they can."""
    if not shutil.which("unshare"):
        return "unshare is missing"
    command = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def mounted(
    bench: Bench, case: Case, place: Place, mount: Mount, command: list[str], first: str = "true"
) -> Done | None:
    """Run it with the file system mounted; None, and a note, if that is not permitted."""
    if why := why_no_mounts():
        case.counts["not tried: cannot make a file system"] += 1
        if not bench.notes:
            bench.notes.append(f"full and read-only file systems were not tried: {why}")
        return None
    return place.run(mount.wrap(command, first))


def relative_tmpdir(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    done = place.assay(*RUN, "--out", report, env=place.environment(TMPDIR="tmp"), cwd=place.folder)
    check(place, case, done, (0,))
    check_report(place, case, report, 2)


def empty_tmpdir(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    check(place, case, place.assay(*RUN, "--out", report, env=place.environment(TMPDIR="")), (0,))
    check_report(place, case, report, 2)


def missing_tmpdir(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    done = place.assay(*RUN, "--out", report, env=place.environment(TMPDIR="/no/such/folder"))
    check(place, case, done, (REFUSED,), "set TMPDIR")


def file_as_tmpdir(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    file = place.out / "file"
    file.touch()
    done = place.assay(*RUN, "--out", report, env=place.environment(TMPDIR=str(file)))
    check(place, case, done, (REFUSED,), "set TMPDIR")


def read_only_tmpdir(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    command = place.command(*RUN, "--out", report)
    if done := mounted(bench, case, place, Mount(place.tmp, "ro"), command):
        check(place, case, done, (REFUSED,), "set TMPDIR")


def full_tmpdir(bench: Bench, case: Case) -> None:
    """From no space at all to space for some of a cell's files."""
    place, report = fresh(bench)
    kilobytes = case.random.choice([0, 4, 16, 64, 256, 1024])
    size = max(8, kilobytes + 8)
    fill = f"head -c {(size - kilobytes) * 1024} /dev/zero > {shlex.quote(str(place.tmp / 'filled'))} || true"
    command = place.command(*RUN, "--out", report)
    if done := mounted(bench, case, place, Mount(place.tmp, f"size={size}k"), command, fill):
        # A cell whose files have no space gets a row that reports it.
        check(place, case, done, (0, REFUSED, INCOMPLETE), "No space" if done.code == REFUSED else "")
        check_report(place, case, report)


def row_of(case: Case, report: Path, mode: str) -> dict[str, Any]:
    rows = (
        [cell for cell in read_report(report)["cells"] if cell["axes"]["mode"] == mode]
        if report.exists()
        else []
    )
    case.expect(len(rows) == 1, f"{len(rows)} rows of {mode}")
    return rows[0] if rows else {"status": "missing", "reason": "", "forks": []}


# A mode of the fault worker that compiles, so that its code must be loaded, and one that does not.
COMPILES, OTHER = "good", "other"


def check_refused_mode(place: Place, case: Case, done: Done, report: Path, words: str) -> None:
    check(place, case, done, (INCOMPLETE,))
    check_report(place, case, report, 2)
    refused, measured = (row_of(case, report, mode) for mode in (COMPILES, OTHER))
    case.expect(
        refused["status"] != "ok" and words in refused["reason"], f"{refused['status']}: {refused['reason']}"
    )
    case.expect(measured["status"] == "ok", f"{measured['status']}: {measured['reason']}")


def tmpdir_without_exec(bench: Bench, case: Case) -> None:
    """Code that is compiled there cannot be loaded."""
    place, report = fresh(bench)
    command = place.command(*fault_run(f"{COMPILES},{OTHER}", forks=2), "--out", report)
    if done := mounted(bench, case, place, Mount(place.tmp, "noexec"), command):
        check_refused_mode(place, case, done, report, "is mounted without exec")


def tmpdir_with_blanks(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    folder = place.out / "two words"
    folder.mkdir()
    command = fault_run(f"{COMPILES},{OTHER}", forks=2)
    done = place.assay(*command, "--out", report, env=place.environment(TMPDIR=str(folder)))
    check_refused_mode(place, case, done, report, "does not quote")
    case.expect(not [*folder.iterdir()], "files are left in TMPDIR")


def tmpdir_that_a_worker_fills(bench: Bench, case: Case) -> None:
    """The next cell has space."""
    place, report = fresh(bench)
    command = place.command(*fault_run("fills,good", forks=2), "--out", report)
    if done := mounted(bench, case, place, Mount(place.tmp, "size=32m"), command):
        check(place, case, done, (INCOMPLETE,))
        filled, good = row_of(case, report, "fills"), row_of(case, report, "good")
        case.expect(filled["status"] != "ok", "the worker had more space than there is")
        case.expect(good["status"] == "ok" and len(good["forks"]) == 2, f"{good['status']}: {good['reason']}")
        check_report(place, case, report, 2)


def cpu_quota(bench: Bench, case: Case) -> None:
    """A control group that may use a fifth of a processor: forks that it stops do not count."""
    place, report = fresh(bench)
    group, why = make_quota(0.2)
    if not group:
        case.counts["not tried: cannot make a control group"] += 1
        bench.notes.append(f"a CPU quota was not tried: {why}")
        return
    try:
        script = f'echo $$ > {shlex.quote(str(group / "cgroup.procs"))} && exec "$@"'
        command = place.command(*fault_run("busy", forks=1), "--out", report)
        done = place.run(["sh", "-c", script, "sh", *command])
        check(place, case, done, (0,))
    finally:
        group.rmdir()
    made = read_report(report)
    quota = made["environment"]["control_group"]["cpu_quota"]
    case.expect(quota == 0.2, f"the report has the quota {quota}")
    for fork in row_of(case, report, "busy")["forks"]:
        case.expect("cpu_quota" in fork["flags"], f"flags {fork['flags']}")
    case.expect("quota" in done.out, f"the table does not name the quota: {done.out[-400:]}")
    check_report(place, case, report, 1)


def make_quota(processors: float) -> tuple[Path | None, str]:
    """Make a control group (version 1 or 2) with that quota; without one, why not."""
    period = 100_000
    limit = round(processors * period)
    why = "there is no controller for processors"
    for parent, files in (
        (Path("/sys/fs/cgroup/cpu"), {"cpu.cfs_period_us": f"{period}", "cpu.cfs_quota_us": f"{limit}"}),
        (Path("/sys/fs/cgroup"), {"cpu.max": f"{limit} {period}"}),
    ):
        group = parent / f"assay-campaign-{os.getpid()}"
        try:
            group.mkdir()
        except OSError as error:
            why = str(error)
            continue
        try:
            for name, text in files.items():
                (group / name).write_text(text)
            return group, ""
        except OSError as error:
            why = str(error)
            group.rmdir()
    return None, why


def report_whose_disk_fills(bench: Bench, case: Case) -> None:
    """The forks that no longer fit are in the copy."""
    place, report = fresh(bench)
    kilobytes, forks = case.random.randrange(16, 40), 40
    disk = place.folder / "disk"
    disk.mkdir(exist_ok=True)
    # The small file system is lost with its namespace, so a copy of it is checked.
    keep = f'"$@"; code=$?; cp {disk}/report.json {report}; exit $code'
    command = [
        "sh",
        "-c",
        keep,
        "sh",
        *place.command(*fault_run("good", forks=forks), "--out", disk / "report.json"),
    ]
    done = mounted(bench, case, place, Mount(disk, f"size={kilobytes}k"), command)
    if done is None:
        return
    copies = list(place.tmp.glob("assay-report-*/report.json"))
    case.expect(len(copies) == 1, f"there are {len(copies)} copies: {done.told}")
    for copy in copies:
        case.expect(str(copy) in done.err, f"the copy is not named: {done.told}")
        check_report(place, case, copy, forks)
        remove(copy.parent)
    check_report(place, case, report)
    check(place, case, done, (REFUSED,), "No space")


def no_home(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    changes = {"HOME": None, "ASSAY_CACHE": None, "XDG_CACHE_HOME": None, "XDG_DATA_HOME": None}
    done = place.assay(*RUN, "--out", report, env=place.environment(**changes))
    case.expect("nothing is cached" in done.err, f"no message that nothing is cached: {done.told}")
    check(place, case, done, (0,))
    check_report(place, case, report, 2)


def home_that_is_not_there(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    changes = {"HOME": "/proc/no/such/home", "ASSAY_CACHE": None}
    check(place, case, place.assay(*RUN, "--out", report, env=place.environment(**changes)), (0,))
    check_report(place, case, report, 2)


def removed_working_directory(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    gone = place.folder / "gone"
    gone.mkdir()
    command = place.command(*RUN, "--out", report)
    done = place.run(["sh", "-c", f'cd {gone} && rmdir {gone} && exec "$@"', "sh", *command])
    check(place, case, done, (0, REFUSED))
    if done.code == 0:
        check_report(place, case, report, 2)


def pipe_with_a_reader(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    os.mkfifo(place.out / "pipe")
    reader = threading.Thread(target=lambda: report.write_bytes((place.out / "pipe").read_bytes()))
    reader.start()
    done = place.assay(*RUN, "--out", place.out / "pipe")
    reader.join(30)
    check(place, case, done, (0,))
    check_report(place, case, report, 2)


def pipe_without_a_reader(bench: Bench, case: Case) -> None:
    place, _ = fresh(bench)
    os.mkfifo(place.out / "pipe")
    check(place, case, place.assay(*RUN, "--out", place.out / "pipe"), (REFUSED,), "without a reader")


def pipe_whose_reader_leaves(bench: Bench, case: Case) -> None:
    place, _ = fresh(bench)
    os.mkfifo(place.out / "pipe")
    reader = threading.Thread(target=lambda: (place.out / "pipe").open("rb").close())
    reader.start()
    done = place.assay(*RUN, "--out", place.out / "pipe")
    reader.join(30)
    copies = list(place.tmp.glob("assay-report-*/report.json"))
    for copy in copies:
        case.expect(str(copy) in done.err, f"the copy is not named: {done.told}")
        check_report(place, case, copy, 2)
        remove(copy.parent)
    case.expect(len(copies) == 1, f"there are {len(copies)} copies: {done.told}")
    check(place, case, done, (REFUSED,))


def special_file_as_report(bench: Bench, case: Case) -> None:
    place, _ = fresh(bench)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place.out / "socket"))
        given = case.random.choice(
            ["/", str(place.out), "/dev/full", str(place.out / "socket"), "/no/such/r.json", ""]
        )
        done = place.assay(*RUN, "--out", given)
    check(place, case, done, (REFUSED,))


def device_as_report(bench: Bench, case: Case) -> None:
    place, _ = fresh(bench)
    check(place, case, place.assay(*RUN, "--out", "/dev/null"), (0,))


def link_as_report(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    link = place.out / "link.json"
    link.symlink_to(report)
    check(place, case, place.assay(*RUN, "--out", link), (0,))
    case.expect(link.is_symlink(), "the link has become a file")
    check_report(place, case, report, 2)


def read_only_folder_of_the_report(bench: Bench, case: Case) -> None:
    place, _ = fresh(bench)
    disk = place.folder / "disk"
    disk.mkdir(exist_ok=True)
    command = place.command(*RUN, "--out", disk / "report.json")
    if done := mounted(bench, case, place, Mount(disk, "ro"), command):
        check(place, case, done, (REFUSED,), "Read-only")


def limited(kind: int, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(kind, (value, value))


def few_descriptors(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    most = case.random.randrange(3, 80)
    done = place.assay(*RUN, "--out", report, preexec_fn=limited(resource.RLIMIT_NOFILE, most))
    loader = done.code == 127 and "shared libraries" in done.err  # the program was never started
    check(place, case, done, (127,) if loader else (0, REFUSED, INCOMPLETE))
    case.expect(loader or most >= 64 or "ulimit -n" in done.err, f"with {most} descriptors: {done.told}")
    check_report(place, case, report)


def small_files_only(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    most = case.random.choice([0, 512, 4096, 8192, 65536, 1 << 20])
    # The limit also applies to a file that receives the messages, but not to a pipe.
    reading, writing = os.pipe()
    done = place.assay(*RUN, "--out", report, preexec_fn=limited(resource.RLIMIT_FSIZE, most), stderr=writing)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="replace") as messages:
        done = replace(done, err=messages.read())
    check(place, case, done, (0, REFUSED, INCOMPLETE), "ulimit -f" if done.code == REFUSED else "")
    check_report(place, case, report)


def little_memory(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    megabytes = case.random.choice([16, 24, 32, 48, 64, 96, 128, 256, 512])
    done = place.assay(*RUN, "--out", report, preexec_fn=limited(resource.RLIMIT_AS, megabytes << 20))
    loader = done.code == 127 and "shared libraries" in done.err
    check(place, case, done, (127,) if loader else (0, REFUSED, INCOMPLETE))
    case.expect(done.code != REFUSED or "ulimit -v" in done.err, done.told)
    check_report(place, case, report)


NOBODY = 65534


def few_processes(bench: Bench, case: Case) -> None:
    """The kernel does not hold root to this limit, so root runs it as nobody."""
    place, report = fresh(bench)
    most = case.random.choice([1, 2, 3])
    cache = place.out / "cache"
    for folder in (bench.folder, place.folder, place.out, place.tmp, place.home):
        folder.chmod(0o777)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    if os.getuid() == 0 and not may_be_executed_by_nobody(bench.program):
        case.counts["not tried: others may not execute the program"] += 1
        return
    environment = place.environment(ASSAY_CACHE=str(cache))
    done = place.assay(*RUN, "--out", report, env=environment, preexec_fn=limit)
    check(place, case, done, (0, REFUSED, INCOMPLETE), "ulimit -u" if done.code == REFUSED else "")
    if most == 1:
        case.expect(done.code == REFUSED, f"with one process: {done.told}")
    if done.code == INCOMPLETE:
        codes = {cell.get("reason_code") for cell in read_report(report)["cells"]}
        case.expect(codes <= {"place_limit"}, f"with {most} processes: {codes}")
    remove(cache)


def may_be_executed_by_nobody(program: Path) -> bool:
    def become() -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    try:
        command = [str(program), "--version"]
        return subprocess.run(command, capture_output=True, check=False, preexec_fn=become).returncode == 0
    except OSError:
        return False


def little_cpu_time(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    seconds = case.random.choice([2, 3, 6])
    done = place.assay(
        *fault_run("spins", forks=1),
        "--out",
        report,
        preexec_fn=limited(resource.RLIMIT_CPU, seconds),
    )
    check(place, case, done, (INCOMPLETE,))
    case.expect(f"may use {seconds} s of CPU time" in done.err, f"no word of the limit: {done.told}")
    check_report(place, case, report, 1)
    for cell in read_report(report)["cells"]:
        case.expect(cell["reason_code"] == "place_limit", f"{cell['reason_code']}: {cell['reason']}")
        case.expect("ulimit -t" in cell["reason"], f"no remedy: {cell['reason']}")


def long_id(bench: Bench, case: Case) -> None:
    place, report = fresh(bench)
    steps = ":".join(f"{epoch}x0.9" for epoch in range(1, case.random.randrange(20, 200)))
    done = place.assay(
        *fault_run("good", "--epochs", 1, "--schedule", f"step:{steps}", forks=1), "--out", report
    )
    check(place, case, done, (0, REFUSED))
    case.expect(done.code == 0 or "schedule" in done.err, done.told)
    if done.code == 0:
        check_report(place, case, report, 1)


CASES = [
    relative_tmpdir,
    empty_tmpdir,
    missing_tmpdir,
    file_as_tmpdir,
    read_only_tmpdir,
    full_tmpdir,
    tmpdir_without_exec,
    tmpdir_with_blanks,
    tmpdir_that_a_worker_fills,
    cpu_quota,
    report_whose_disk_fills,
    no_home,
    home_that_is_not_there,
    removed_working_directory,
    pipe_with_a_reader,
    pipe_without_a_reader,
    pipe_whose_reader_leaves,
    special_file_as_report,
    device_as_report,
    link_as_report,
    read_only_folder_of_the_report,
    few_descriptors,
    small_files_only,
    little_memory,
    few_processes,
    little_cpu_time,
    long_id,
]


def hold(bench: Bench) -> None:
    run_all(bench, CASES)
