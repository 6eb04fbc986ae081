"""The documentation: how its lines are written, and that what it names exists."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import PROGRAM
from worker_under_test import ROOT

COLUMNS = 100
# Written by programs: their text is not in the page.
GENERATED = {
    "docs/reference/axes.md",
    "docs/reference/reason-codes.md",
    "docs/reference/memory.md",
    "docs/reference/operators.md",
}
PAGES = sorted(str(p.relative_to(ROOT)) for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
OTHERS = {str(p.relative_to(ROOT)) for p in [*ROOT.glob("*.md"), *(ROOT / "results").rglob("*.md")]}
LINKING = sorted(OTHERS.union(PAGES))

CODE = re.compile(r"`[^`]*`")
MARKER = re.compile(r"^\s*(\d+\.|[-*])\s+")
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]*)\)")
TWO_SENTENCES = re.compile(r"[.!?][\"')\]*_]*\s+[\"'(\[*_]*[A-Z`]")
# Paths of the tree in a code span or a code block; a worker has its own results.
PATH = re.compile(
    r"(?<![\w/.$}-])(?:\.ci|backends|configs|docs|harness|results|scripts|tests|workloads)/[\w./*-]*[\w*]"
)
OF_A_CELL = re.compile(r"results/(clock\.json|(verify|oracle)\.safetensors)")


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines that are neither code, table, heading nor comment."""
    fenced = commented = False
    before = ""
    indented = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            commented = commented or line.startswith("<!--")
            deep = line.startswith("    ")
            indented = deep and (indented or not before.strip())
            if not (commented or indented or line.startswith(("|", "#"))):
                yield number, line
            commented = commented and "-->" not in line
        before = line


def faults(text: str) -> list[str]:
    """Lines of prose that are too long, or have more than one sentence."""
    found = []
    for number, line in prose(text):
        if len(LINK.sub(r"\1", line)) > COLUMNS:
            found.append(f"{number}: is longer than {COLUMNS} columns")
        if TWO_SENTENCES.search(CODE.sub("`x`", LINK.sub(r"\1", MARKER.sub("", line)))):
            found.append(f"{number}: has more than one sentence: {line.strip()}")
    return found


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub and GitLab make them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [LINK.sub(r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def dead_links(text: str, folder: Path) -> list[str]:
    found = []
    for target in (match[1] for match in LINK.findall(CODE.sub("", text))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = folder / name
        if not file.exists():
            found.append(target)
        elif anchor:
            content = file.read_text(encoding="utf-8") if name else text
            if anchor not in anchors(content):
                found.append(target)
    return found


def dead_paths(text: str, root: Path) -> list[str]:
    spans = CODE.findall(text)
    blocks = [line for line in text.splitlines() if line.startswith("    ")]
    named = {path.replace("NAME", "*") for span in [*spans, *blocks] for path in PATH.findall(span)}
    return sorted(p for p in named if not OF_A_CELL.fullmatch(p) and not any(root.glob(p)))


@pytest.mark.parametrize("page", [p for p in PAGES if p not in GENERATED])
def test_a_page_has_one_sentence_per_line(page: str) -> None:
    assert not faults((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", LINKING)
def test_links_and_paths_of_a_page_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not dead_links(text, (ROOT / page).parent)
    assert not dead_paths(text, ROOT)


def test_generated_pages_exist() -> None:
    assert set(PAGES) >= GENERATED


def linked_from(index: str) -> set[Path]:
    targets = LINK.findall((ROOT / index).read_text(encoding="utf-8"))
    return {(ROOT / index).parent / target.partition("#")[0] for _, target in targets}


def test_every_page_is_in_an_index() -> None:
    linked = {
        path.resolve()
        for index in ("docs/README.md", "docs/measurements/README.md")
        for path in linked_from(index)
    }
    assert {ROOT / page for page in PAGES if page.startswith("docs/")} - linked == {ROOT / "docs/README.md"}


def test_the_linter_finds_long_lines_and_second_sentences() -> None:
    assert not faults("One sentence.\nAnother one, as `a. B` and 3.5 say.\n")
    assert not faults("| A. B | " + "x" * 120 + " |\n\n    Code. Code.\n\n```\nA. B\n```\n")
    assert not faults("- An item.\n  Its second sentence.\n")
    assert not faults("[" + "x" * 90 + "](" + "y" * 90 + ")\n")
    assert len(faults("One. Two.\n")) == 1
    assert len(faults("- One (really).\n  Two! `code` begins the third.\n")) == 1
    assert len(faults("1. x\n   - y. Z\n     w. V\n")) == 2
    assert len(faults("x" * 101 + "\n")) == 1


def test_the_linter_finds_dead_links_and_paths(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# One fork, two\n")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/setup").touch()
    assert not dead_links("[x](a.md#one-fork-two) [y](https://example.org) [z](#here)\n# Here\n", tmp_path)
    assert dead_links("[x](a.md#two) [y](b.md) [z](#there)\n# Here\n", tmp_path) == [
        "a.md#two",
        "b.md",
        "#there",
    ]
    text = (
        "`scripts/setup`, `scripts/s*`, `results/clock.json`, `scripts/no`\n\n    ../scripts/x scripts/plot\n"
    )
    assert dead_paths(text, tmp_path) == ["scripts/no", "scripts/plot"]


COMMAND = re.compile(r"^ {4}(?:ASSAY_BACKENDS=\S+ )?(?:build/\w+/)?assay (\w.*)$", re.MULTILINE)
PLACEHOLDER = re.compile(r"[…<$]|\.\./|\b(BASE|CONFIG|DIR|FILE|NAME|NEW|OLD|REPORT|TEXT|WORKLOAD)\b")


def commands() -> list[str]:
    """The commands in the code blocks of all pages, without placeholders."""
    found: set[str] = set()
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
        found |= {re.sub(r"\s+[#|].*", "", command) for command in COMMAND.findall(text)}
    return sorted(command for command in found if not PLACEHOLDER.search(command))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands name: reports, and the arrays of the page about own data."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "reports").mkdir()
    (folder / "results").symlink_to(ROOT / "results")
    for name in {name for command in commands() for name in re.findall(r"[\w./-]+\.json", command)}:
        if not name.startswith(("/", "results/")):
            shutil.copy(ROOT / "tests/cli/data/report.json", folder / name)
    page = (ROOT / "docs/how-to/own-data.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    subprocess.run([sys.executable, "-c", example], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("command", commands())
def test_the_program_understands_a_command(command: str, desk: Path) -> None:
    words = shlex.split(command)
    codes = {0}
    if words[0] in ("run", "check", "ab"):
        words.append("--dry-run")
    elif words[0] == "compare":
        codes = {0, 3, 4, 5, 6}
    elif words[0] == "calibrate":  # it has no dry run
        options = [word for word in words if word.startswith("--")]
        words = ["calibrate", "--help"]
    environment = os.environ | {"ASSAY_BACKENDS": str(ROOT / "tests")}
    done = subprocess.run(
        [PROGRAM, *words], cwd=desk, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode in codes, done.stderr
    if words[-1] == "--help":
        assert [option for option in options if option not in done.stdout] == []


def sources(*folders: str) -> Iterator[tuple[Path, str]]:
    """The files of the tree that a person wrote, except pages, with their text."""
    suffixes = (".cpp", ".hpp", ".h", ".cu", ".cuh", ".inc", ".py", ".json", ".cmake", ".txt", "")
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts:
                yield path, path.read_text(encoding="utf-8", errors="replace")


def test_the_pages_that_sources_name_exist() -> None:
    named = re.compile(r"(?<![\w/.])docs/[\w/-]+\.(?:md|json|svg)\b")
    folders = ("harness", "backends", "workloads", "scripts", "tests", ".ci")
    found = {(path, page) for path, text in sources(*folders) for page in named.findall(text)}
    assert len(found) > 20
    assert [(str(path), page) for path, page in sorted(found) if not (ROOT / page).exists()] == []


def test_the_messages_of_the_troubleshooting_page_are_those_of_the_program() -> None:
    page = (ROOT / "docs/how-to/troubleshooting.md").read_text(encoding="utf-8")
    tables = [part for part in page.split("\n## ") if "| message |" in part]
    messages = [m for part in tables for m in re.findall(r"^\| `([^`]+)` \|", part, re.MULTILINE)]
    assert len(messages) > 20
    texts = [text for _, text in sources("harness", "backends", "scripts")]
    assert [m for m in messages if not any(m in text for text in texts)] == []


def test_the_pictures_are_what_their_texts_give() -> None:
    done = subprocess.run(
        [ROOT / "scripts/diagrams.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_text_that_cannot_be_drawn_is_refused() -> None:
    from diagrams import DiagramError, drawn

    for text in (
        "",
        "circles 1 2",
        "boxes 10 10\narrow a b",
        "sequence 100\nactor a A\na -> b x",
        "boxes 9 9\nx",
    ):
        with pytest.raises(DiagramError):
            drawn(text, "wrong")
    assert "&lt;a&gt;" in drawn("boxes 100 100\nbox a 1 1 9 9 '<a>'", "escaped")
