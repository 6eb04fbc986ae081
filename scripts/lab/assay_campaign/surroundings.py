"""Unusual surroundings: a run works and has the usual numbers, or is refused in one line that helps."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay_campaign.bench import Bench, Case, Done, Place, read_report, real_run, remove

REFUSED = 2
RUN = real_run("reference", "--check=false", forks=1)
PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER, PR_SET_THP_DISABLE, PR_SET_TIMERSLACK = 38, 36, 41, 29


@dataclass(frozen=True)
class Surroundings:
    """How the program is started. It works, unless there are words of a refusal."""

    name: str
    variables: dict[str, str | None] = field(default_factory=dict)  # {folder}: an empty folder
    first: Callable[[], Any] | None = None  # called in the new process
    through: Sequence[str] = ()  # a program that starts it
    shell: str = ""  # a script that starts it as "$@"; {folder}: an empty folder
    inside: bool = False  # it is started in {folder}
    refused: str = ""
    noted: str = ""  # words on standard error if it works


def limit(kind: int, most: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(kind, (most, most))


def control(option: int, value: int) -> Callable[[], int]:
    return lambda: ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def ignore_all() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)


def block_all() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def in_namespaces(script: str, *more: str) -> tuple[str, ...]:
    """Return a command that runs the script in a user namespace, where it may mount."""
    names = ("--user", "--map-root-user", "--mount", *more)
    return ("unshare", *names, "sh", "-c", f'{script}; exec "$@"', "sh")


HIDES = "for file in stat meminfo cpuinfo loadavg vmstat; do mount --bind /dev/null /proc/$file; done"
NOT_UTF8 = os.fsdecode(b"\xff\xfe")
NAMES = ("two  words 'and \" $quotes", "a\nline", "-dash", "a=b", "n" * 200, "ä€😀")

CASES = [
    # Variables that reach no worker, and some that do.
    Surroundings(
        "OpenMP",
        {
            "OMP_NUM_THREADS": "7",
            "OMP_THREAD_LIMIT": "1",
            "OMP_PLACES": "{1}",
            "OMP_STACKSIZE": "16k",
            "OMP_PROC_BIND": "true",
            "OMP_DYNAMIC": "true",
            "OMP_MAX_ACTIVE_LEVELS": "0",
        },
    ),
    Surroundings(
        "GNU OpenMP", {"GOMP_CPU_AFFINITY": "0", "GOMP_SPINCOUNT": "infinite", "GOMP_STACKSIZE": "1"}
    ),
    Surroundings(
        "Intel OpenMP", {"KMP_AFFINITY": "disabled", "KMP_BLOCKTIME": "infinite", "KMP_HW_SUBSET": "1c"}
    ),
    Surroundings(
        "MKL", {"MKL_NUM_THREADS": "9", "MKL_CBWR": "COMPATIBLE", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}
    ),
    Surroundings("OpenBLAS", {"OPENBLAS_NUM_THREADS": "9", "OPENBLAS_CORETYPE": "Prescott"}),
    Surroundings(
        "oneDNN", {"ONEDNN_MAX_CPU_ISA": "SSE41", "ONEDNN_DEFAULT_FPMATH_MODE": "ANY", "DNNL_VERBOSE": "2"}
    ),
    Surroundings(
        "XLA and JAX",
        {"XLA_FLAGS": "--no-such", "JAX_PLATFORMS": "tpu", "JAX_ENABLE_X64": "1", "JAX_DISABLE_JIT": "1"},
    ),
    Surroundings(
        "TensorFlow", {"TF_XLA_FLAGS": "--no-such", "TF_ENABLE_ONEDNN_OPTS": "0", "KERAS_BACKEND": "jax"}
    ),
    Surroundings(
        "PyTorch", {"TORCHDYNAMO_DISABLE": "1", "TORCH_COMPILE_DEBUG": "1", "ATEN_CPU_CAPABILITY": "default"}
    ),
    Surroundings("MXNet", {"MXNET_ENGINE_TYPE": "NaiveEngine", "MXNET_EXEC_BULK_EXEC_TRAIN": "0"}),
    Surroundings(
        "Python",
        {
            "PYTHONHOME": "/none",
            "PYTHONPATH": "/none",
            "PYTHONOPTIMIZE": "2",
            "PYTHONMALLOC": "debug",
            "PYTHONHASHSEED": "x",
            "PYTHONWARNINGS": "error",
            "PYTHONSTARTUP": "/none",
        },
    ),
    Surroundings("allocator", {"MALLOC_ARENA_MAX": "1", "MALLOC_PERTURB_": "165"}),
    Surroundings("C library", {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-AVX512F:glibc.malloc.perturb=77"}),
    Surroundings("preloaded library that is missing", {"LD_PRELOAD": "/none.so"}),
    Surroundings(
        "OpenSSL with FIPS only",
        shell='printf "openssl_conf = i\n[i]\nalg_section = a\n[a]\ndefault_properties = fips=yes\n" '
        '> {folder}/openssl && OPENSSL_CONF={folder}/openssl exec "$@"',
    ),
    Surroundings(
        "a damaged library in the working directory",
        shell="cd {folder} && echo x | tee libhwloc.so.15 libassay_batch.so libdnnl.so.3 > libgomp.so.1; "
        'exec "$@"',
    ),
    Surroundings("compilers", {"CC": "/none", "CXX": "/none", "CFLAGS": "-O0", "LDFLAGS": "--none"}),
    Surroundings(
        "languages that are not installed",
        {"LC_ALL": "de_DE.UTF-8", "LANG": "tr_TR.UTF-8", "LC_NUMERIC": "fr_FR"},
    ),
    Surroundings("language C", {"LC_ALL": "C", "LANG": None}),
    Surroundings("another machine", {"HWLOC_SYNTHETIC": "l3:1(size=1000) core:64 pu:2"}),
    Surroundings("time zones", {"TZ": ":/etc/passwd"}),
    Surroundings("terminals", {"COLUMNS": "1", "LINES": "x", "TERM": "dumb", "NO_COLOR": "1"}),
    Surroundings("no PATH", {"PATH": None}),
    Surroundings("empty PATH", {"PATH": ""}),
    Surroundings("no home", {"HOME": None}),
    Surroundings("home that is relative", {"HOME": "none"}, inside=True),
    Surroundings("home that cannot be written", {"HOME": "/proc/1/none"}),
    Surroundings("wrong PWD", {"PWD": "/none", "OLDPWD": "none"}),
    Surroundings("variables of 100 kB", {"LC_LONG": "x" * 100_000, "ASSAY_LONG": "y" * 100_000}),
    Surroundings("variables that are not UTF-8", {"LC_ALL": NOT_UTF8, "OMP_SCHEDULE": NOT_UTF8}),
    Surroundings("no variables", shell='exec env -i TMPDIR="$TMPDIR" ASSAY_CACHE="$ASSAY_CACHE" "$@"'),
    Surroundings(
        "Assay's own folders that are missing", {"ASSAY_CONFIGS": "/none", "ASSAY_ENVIRONMENTS": "/none"}
    ),
    # Signals.
    Surroundings("SIGCHLD ignored", first=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)),
    Surroundings("SIGPIPE ignored", first=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN)),
    Surroundings("every signal ignored", first=ignore_all),
    Surroundings("every signal blocked", first=block_all),
    Surroundings("nohup", through=("nohup",)),
    Surroundings("setsid", through=("setsid", "--wait")),
    # Limits and permissions.
    Surroundings("umask 077", first=lambda: os.umask(0o077)),
    Surroundings("umask 000", first=lambda: os.umask(0)),
    Surroundings("umask 777", first=lambda: os.umask(0o777)),
    Surroundings("20 descriptors", first=limit(resource.RLIMIT_NOFILE, 20), refused="ulimit -n"),
    Surroundings("64 descriptors", first=limit(resource.RLIMIT_NOFILE, 64)),
    Surroundings("stack of 256 kB", first=limit(resource.RLIMIT_STACK, 256 << 10), refused="ulimit -s"),
    Surroundings("stack without a limit", first=limit(resource.RLIMIT_STACK, resource.RLIM_INFINITY)),
    Surroundings("no locked memory", first=limit(resource.RLIMIT_MEMLOCK, 0)),
    Surroundings("no queued signals", first=limit(resource.RLIMIT_SIGPENDING, 0)),
    Surroundings("no new privileges", first=control(PR_SET_NO_NEW_PRIVS, 1)),
    Surroundings("1 MB of a file", first=limit(resource.RLIMIT_FSIZE, 1 << 20)),
    # Processors and memory.
    Surroundings("one processor", through=("taskset", "1")),
    Surroundings("low priority", through=("nice", "-n", "19"), noted="nice 19"),
    Surroundings("batch policy", through=("chrt", "--batch", "0"), noted="policy batch"),
    Surroundings("no huge pages", first=control(PR_SET_THP_DISABLE, 1), noted="no huge pages"),
    Surroundings("late timers", first=control(PR_SET_TIMERSLACK, 50_000_000)),
    Surroundings("no address randomisation", through=("setarch", "-R")),
    Surroundings("a kernel named 2.6", through=("setarch", "--uname-2.6")),
    # Standard descriptors and the working directory.
    Surroundings("closed descriptors", shell='exec "$@" <&- >&- 2>&-'),
    Surroundings("full descriptors", shell='exec "$@" </dev/full >/dev/full 2>/dev/full'),
    Surroundings("removed working directory", shell='cd {folder} && rmdir {folder} && exec "$@"'),
    Surroundings("working directory in /proc", shell='cd /proc && exec "$@"'),
    Surroundings("program without a name", shell='exec bash -c \'exec -a "" "$@"\' bash "$@"'),
    # Namespaces and file systems, as in containers.
    Surroundings("no /proc", through=in_namespaces("mount -t tmpfs none /proc"), refused="mount -t proc"),
    Surroundings(
        "/proc of another process namespace",
        through=in_namespaces("true", "--pid", "--fork"),
        refused="of another process namespace",
    ),
    Surroundings(
        "first process of a container", through=in_namespaces("true", "--pid", "--fork", "--mount-proc")
    ),
    Surroundings("subreaper", first=control(PR_SET_CHILD_SUBREAPER, 1)),
    Surroundings("no /sys", through=in_namespaces("mount -t tmpfs none /sys")),
    Surroundings("no /etc", through=in_namespaces("mount -t tmpfs none /etc")),
    Surroundings("no /dev/shm", through=in_namespaces("mount -t tmpfs -o ro,size=4k none /dev/shm")),
    Surroundings("no network", through=in_namespaces("true", "--net")),
    Surroundings("unmapped user", through=("unshare", "--user")),
    Surroundings("another time", through=("unshare", "--user", "--time", "--monotonic", "100000", "--fork")),
    Surroundings("few files in /proc", through=in_namespaces(HIDES)),
    # Names of folders.
    *(
        Surroundings(f"{variable} {name[:12]!r}", {variable: "{folder}/" + name})
        for name in NAMES
        for variable in ("TMPDIR", "ASSAY_CACHE")
    ),
    Surroundings("TMPDIR that is not UTF-8", {"TMPDIR": "{folder}/" + NOT_UTF8}, refused="is not UTF-8"),
    Surroundings("cache that is not UTF-8", {"ASSAY_CACHE": "{folder}/" + NOT_UTF8}, noted="is not UTF-8"),
    Surroundings("cache that is a file", {"ASSAY_CACHE": "/dev/null"}, noted="nothing is cached"),
]


def starts(command: Sequence[str], first: Callable[[], Any] | None) -> bool:
    """Whether this machine permits the surroundings."""
    if command and not shutil.which(command[0]):
        return False
    try:
        return (
            subprocess.run([*command, "true"], capture_output=True, check=False, preexec_fn=first).returncode
            == 0
        )
    except (OSError, subprocess.SubprocessError):
        return False


def numbers_of(report: dict[str, Any]) -> list[Any]:
    """Return what no surroundings may change in silence.

    Of the losses, the one after the last step: a slow moment changes how many steps a block has.
    """
    return [report["environment"]["cpu"]["cores"]] + [
        (fork["blocks"]["loss"][-1], fork["variables"], {**fork["settings"], "affinity": ""})
        for cell in report["cells"]
        for fork in cell["forks"]
    ]


@dataclass
class Usual:
    """A run in usual surroundings: its numbers, and the lines that it prints."""

    numbers: list[Any] = field(default_factory=list)
    lines: set[str] = field(default_factory=set)


def start(place: Place, given: Surroundings) -> Done:
    folder = place.folder / "names"
    for old in [*place.out.iterdir(), *place.tmp.iterdir(), folder]:
        remove(old)
    folder.mkdir()
    changes = {
        name: value and value.replace("{folder}", str(folder)) for name, value in given.variables.items()
    }
    if "TMPDIR" in changes:
        Path(str(changes["TMPDIR"])).mkdir()
    command = [*given.through, *place.command(*RUN, "--out", place.out / "report.json")]
    if given.shell:
        command = ["/bin/sh", "-c", given.shell.replace("{folder}", str(folder)), "sh", *command]
    environment = place.environment(**changes)
    return place.run(command, env=environment, preexec_fn=given.first, cwd=folder if given.inside else None)


def compare(place: Place, case: Case, given: Surroundings, done: Done, usual: Usual) -> None:
    report = place.out / "report.json"
    case.counts[f"exit code {done.code}"] += 1
    case.expect(done.code == (REFUSED if given.refused else 0), done.told)
    if given.refused:
        case.expect(given.refused in done.err, f"'{given.refused}' is not in the message: {done.told}")
        lines = set(done.err.splitlines()) - usual.lines
        case.expect(len(lines) == 1, f"more than a line: {done.told}")
    else:
        case.expect(given.noted in done.err, f"'{given.noted}' is not in the messages: {done.told}")
        check_numbers(place, case, report, usual)
    left = place.survivors() + place.leftovers()
    case.expect(not left, f"left: {', '.join(left)}")


def check_numbers(place: Place, case: Case, report: Path, usual: Usual) -> None:
    if not report.exists():
        case.expect(False, "the report is missing")
        return
    case.expect(not place.why_invalid(report), f"the report is invalid: {place.why_invalid(report)}")
    found = numbers_of(read_report(report))
    case.expect(found == usual.numbers, f"other numbers: {found}, not {usual.numbers}")


def hold(bench: Bench) -> None:
    place = bench.place("surroundings")
    done = start(place, Surroundings("usual"))
    if done.code != 0:
        bench.violations.append(f"a run in usual surroundings fails: {done.told}")
        return
    usual = Usual(numbers_of(read_report(place.out / "report.json")), {*done.err.splitlines()})
    for case in bench.each_case():
        given = CASES[case.number % len(CASES)]
        case.kind = given.name
        if not starts(given.through, given.first):
            case.counts["not tried: this machine does not permit it"] += 1
            bench.notes.append(f"not tried: {given.name}")
            continue
        try:
            compare(place, case, given, start(place, given), usual)
        except TimeoutError as error:
            case.expect(False, str(error))
