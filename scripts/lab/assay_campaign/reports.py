"""Mutations of valid reports, read by every command that reads reports."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay_campaign.bench import CONTROL, ROOT, Bench, Case, Place, fault_run, remove

DOCUMENTED = (0, 2, 3, 4, 5, 6)
LIMIT = 300.0  # seconds that a command may take, on a busy machine
MAX_MEMORY = 1 << 30
PLOT_EVERY = 25
RESUMED = fault_run("good,slow", forks=2)

OWNED = re.compile(r"^\s*::error::owned", re.MULTILINE)
HOSTILE_TEXTS = (
    "\x1b]0;owned\x07",
    "\x9b31m",
    "\x85",
    "a\n::error::owned",
    "\r::error::owned",
    "<script>alert(1)</script>",
    "'; touch /tmp/owned; '",
    "=cmd|' /C calc'!A0",
    "\x00",
    "\ud800",
    "/" * 5000,
    "x" * 100_000,
    "",
    "../../owned",
)
HOSTILE_NUMBERS = (
    0,
    -1,
    1,
    2**31,
    -(2**31),
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64,
    10**400,
    1e308,
    -1e308,
    5e-324,
    0.1,
    float("nan"),
    float("inf"),
)
HOSTILE_SOURCE = (
    "1e400",
    "-1e400",
    "9" * 500,
    "0x10",
    "1.",
    "NaN",
    "[" * 50,
    "[" * 200_000,
    '{"a":' * 200_000,
    '"\\ud800"',
)

Json = Any


def place_of(document: Json, lot: random.Random) -> tuple[Any, Any]:
    """Return a container of the document and a key or index of it, at a random depth."""
    here, key = document, lot.choice([*document])
    while isinstance(here[key], (dict, list)) and here[key] and lot.random() < 0.85:
        here = here[key]
        key = lot.choice([*here]) if isinstance(here, dict) else lot.randrange(len(here))
    return here, key


def set_text(here: Any, key: Any, lot: random.Random) -> None:
    here[key] = lot.choice(HOSTILE_TEXTS)


def set_number(here: Any, key: Any, lot: random.Random) -> None:
    here[key] = lot.choice(HOSTILE_NUMBERS)


def set_other_type(here: Any, key: Any, lot: random.Random) -> None:
    here[key] = lot.choice([None, True, [], {}, [[]], {"": {}}, [None] * 100])


def nudge(here: Any, key: Any, lot: random.Random) -> None:
    """Change a number a little, so that other fields contradict it."""
    if isinstance(here[key], (int, float)) and not isinstance(here[key], bool):
        here[key] = here[key] + lot.choice([1, -1]) if lot.random() < 0.5 else here[key] * 2
    else:
        set_number(here, key, lot)


def drop(here: Any, key: Any, lot: random.Random) -> None:
    del here[key]


def repeat(here: Any, key: Any, lot: random.Random) -> None:
    if isinstance(here, list):
        here.extend(copy.deepcopy(here[key]) for _ in range(lot.choice([1, 2, 1000])))
    else:
        here[lot.choice(["", "x", "x_y", str(key) * 2])] = copy.deepcopy(here[key])


def swap(here: Any, key: Any, lot: random.Random) -> None:
    other = lot.choice([*here]) if isinstance(here, dict) else lot.randrange(len(here))
    here[key], here[other] = here[other], here[key]


def nest(here: Any, key: Any, lot: random.Random) -> None:
    for _ in range(lot.choice([1, 10, 40, 200])):
        here[key] = [here[key]]


EDITS: tuple[Callable[[Any, Any, random.Random], None], ...] = (
    set_text,
    set_text,
    set_number,
    set_other_type,
    nudge,
    nudge,
    drop,
    repeat,
    swap,
    nest,
)


def edited(text: bytes, lot: random.Random) -> tuple[str, bytes]:
    document = json.loads(text)
    for _ in range(lot.choice([1, 1, 1, 2, 5])):
        if document:
            lot.choice(EDITS)(*place_of(document, lot), lot)
    return "JSON edited", json.dumps(document, ensure_ascii=lot.random() < 0.5).encode(
        "utf-8", "surrogatepass"
    )


def bytes_changed(text: bytes, lot: random.Random) -> tuple[str, bytes]:
    changed = bytearray(text)
    for _ in range(lot.choice([1, 1, 3, 30])):
        changed[lot.randrange(len(changed))] = lot.randrange(256)
    return "bytes changed", bytes(changed)


def truncated(text: bytes, lot: random.Random) -> tuple[str, bytes]:
    return "truncated", text[: lot.randrange(len(text))]


def spliced(text: bytes, lot: random.Random) -> tuple[str, bytes]:
    at, begin = lot.randrange(len(text)), lot.randrange(len(text))
    return "spliced", text[:at] + text[begin : begin + lot.choice([1, 10, 1000])] + text[at:]


def source_replaced(text: bytes, lot: random.Random) -> tuple[str, bytes]:
    """Replace a number by text that no JSON library writes."""
    numbers = [*re.finditer(rb"(?<=[:\[,])\s*-?\d[\d.eE+-]*", text)]
    found = lot.choice(numbers)
    return "source replaced", text[: found.start()] + lot.choice(HOSTILE_SOURCE).encode() + text[
        found.end() :
    ]


MUTATIONS = (edited, edited, edited, edited, bytes_changed, truncated, spliced, source_replaced)


def commands_of(mutant: Path, base: Path, place: Place, lot: random.Random) -> list[list[object]]:
    show = lot.choice(["console", "markdown", "csv", "json", "gbench"])
    compare = lot.choice(["console", "markdown", "json", "junit", "github"])
    pair = [base, mutant] if lot.random() < 0.5 else [mutant, base]
    calibrate: list[object] = ["calibrate", "--from", base, mutant, "--out", place.out / "calibration.json"]
    return [
        ["validate", *(["--strict"] if lot.random() < 0.3 else []), mutant],
        ["show", mutant, "--format", show],
        ["compare", *pair, "--format", compare],
        calibrate,
    ]


def check(case: Case, command: list[object], code: int, text: str) -> None:
    what = " ".join(word.name if isinstance(word, Path) else str(word) for word in command)
    case.counts[f"{command[0]}: exit code {code}"] += 1
    case.expect(code in DOCUMENTED, f"{what}: exit code {code}: {text[-300:]!r}")
    case.expect("fault of the program" not in text, f"{what}: {text[-300:]!r}")
    if found := CONTROL.search(text):
        case.expect(False, f"{what}: prints the control character {found[0]!r}")
    case.expect(not OWNED.search(text), f"{what}: prints a line that a CI server obeys")


def plot(case: Case, place: Place, mutant: Path) -> None:
    command = [str(ROOT / "scripts/plot"), str(mutant), "--format", "html", "--out", str(place.out / "plots")]
    tools = {"HOME": str(Path.home())}
    done = place.run([*command, "--program", str(place.program)], env=place.environment(**tools))
    if done.code == 1 and "run scripts/setup" in done.err:
        case.counts["plot: not set up here"] += 1
        return
    check(case, ["plot"], done.code, done.out + done.err)
    case.expect("Traceback" not in done.err, f"plot: {done.told}")
    page = place.out / "plots/index.html"
    if page.exists():
        case.expect("<script>alert(1)" not in page.read_text(), "plot: the page runs a script of the report")
    remove(place.out / "plots")


def read_mutant(bench: Bench, case: Case, bases: list[Path]) -> None:
    place, lot = bench.place("reports"), case.random
    base = lot.choice(bases)
    mutate = lot.choice(MUTATIONS)
    case.kind, content = mutate(base.read_bytes(), lot)
    mutant = place.out / "mutant.json"
    mutant.write_bytes(content)
    commands = commands_of(mutant, base, place, lot)
    resumed = place.out / "resumed.json"
    if base == bases[0] and lot.random() < 0.3:
        commands.append([*RESUMED, "--resume", mutant, "--out", resumed])
    for command in commands:
        done = place.assay(*command, limit=LIMIT)
        check(case, command, done.code, done.out + done.err)
        case.expect(done.max_rss < MAX_MEMORY, f"{command[0]} took {done.max_rss >> 20} MB")
        if "--resume" in command and resumed.exists():
            why = place.why_invalid(resumed)
            case.expect(not why, f"--resume made an invalid report: {why}")
            remove(resumed)
    if case.number % PLOT_EVERY == 0:
        plot(case, place, mutant)
    left = place.survivors() + place.leftovers()
    case.expect(not left, f"left: {', '.join(left)}")


def hold(bench: Bench) -> None:
    place = bench.place("reports")
    own = place.out / "own.json"
    done = place.assay(*RESUMED, "--out", own)
    if done.code != 0:
        bench.violations.append(f"a run whose report is to be mutated fails: {done.told}")
        return
    kept = sorted((ROOT / "tests/reports").glob("*.json"))
    bases = [own, own, *kept, ROOT / "tests/cli/data/report.json"]
    for case in bench.each_case():
        try:
            read_mutant(bench, case, bases)
        except TimeoutError as error:
            case.expect(False, str(error))
