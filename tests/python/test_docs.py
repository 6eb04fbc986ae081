"""The documentation: how its lines are written, and that what it names exists."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from assay_worker.adapter import InferenceAdapter, TrainingAdapter
from program import assay
from worker_under_test import ROOT

COLUMNS = 100
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
    """The numbered lines that are neither code, table, heading nor comment, nor written by `assay docs`."""
    fenced = commented = generated = False
    before = ""
    indented = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("<!-- assay docs: ", "<!-- /assay docs")):
            generated = not generated
        elif line.startswith("```"):
            fenced = not fenced
        elif not (fenced or generated):
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


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_one_sentence_per_line(page: str) -> None:
    assert not faults((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", LINKING)
def test_links_and_paths_of_a_page_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not dead_links(text, (ROOT / page).parent)
    assert not dead_paths(text, ROOT)


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
    block = "<!-- assay docs: x -->\nA. B\n<!-- /assay docs -->\n"
    assert not faults(block)
    assert len(faults(block + "A. B\n")) == 1


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


def test_the_reference_pages_are_what_the_program_writes() -> None:
    done = assay("docs", "--check", folder=ROOT)
    assert done.returncode == 0, done.stderr


def test_a_page_that_differs_is_named_and_written_again(tmp_path: Path) -> None:
    for page in ("axes.md", "metrics.md"):
        shutil.copy(ROOT / "docs/reference" / page, tmp_path)
    page = tmp_path / "axes.md"
    good = page.read_text(encoding="utf-8")
    page.write_text(good.replace("| `batch` |", "| `batsh` |"), encoding="utf-8")
    call = ("docs", "axes", "metrics", "--out", tmp_path)
    checked = assay(*call, "--check")
    assert checked.returncode == 2
    assert "axes.md" in checked.stderr
    assert "metrics.md" not in checked.stderr
    assert page.read_text(encoding="utf-8") != good
    written = assay(*call)
    assert written.returncode == 0, written.stderr
    assert written.stdout.split() == [str(page)]
    assert page.read_text(encoding="utf-8") == good
    assert assay(*call, "--check").returncode == 0


def test_pages_can_be_written_without_the_source_tree(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert assay("docs", "--check", "--out", folder).returncode == 2
    done = assay("docs", "--out", folder)
    assert done.returncode == 0, done.stderr
    pages = {path.name for path in folder.iterdir()}
    assert {"axes.md", "command-line.md", "report.md"} <= pages
    assert pages <= {path.name for path in (ROOT / "docs/reference").iterdir()}
    assert "# Axes" in (folder / "axes.md").read_text(encoding="utf-8")
    refused = assay("docs", folder=tmp_path)  # docs/reference is missing
    assert refused.returncode == 2
    assert "--out" in refused.stderr
    unknown = assay("docs", "axis")
    assert unknown.returncode == 2
    assert "'axes'" in unknown.stderr


def test_the_page_of_the_command_line_has_every_option(tmp_path: Path) -> None:
    assert assay("docs", "command-line", "axes", "configs", "--out", tmp_path).returncode == 0
    page = (tmp_path / "command-line.md").read_text(encoding="utf-8")
    rows = [(tmp_path / f"{name}.md").read_text(encoding="utf-8") for name in ("axes", "configs")]
    shared = {f"--{name}" for text in rows for name in re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE)}
    for section in page.split("\n### assay ")[1:]:
        command = section.split("\n")[0]
        listed = set(re.findall(r"--[\w-]+", section)) | (shared if "(axes.md)" in section else set())
        helped = assay(command, "--help").stdout
        options = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", helped, re.MULTILINE)) - {"--help"}
        assert options <= listed, command
    assert page.count("\n### assay ") == page.count("| [`assay ")


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


def test_the_pages_count_the_methods_of_a_backend() -> None:
    page = (ROOT / "docs/how-to/add-a-framework.md").read_text(encoding="utf-8")
    table = page.partition("## 2. Nine methods")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(TrainingAdapter.__abstractmethods__)
    assert len(named) == 9
    runtime = page.partition("### Only inference")[2].partition("\n#")[0]
    named = re.findall(r"^- `(\w+)`", runtime, re.MULTILINE)
    assert sorted(named) == sorted({*InferenceAdapter.__abstractmethods__, "__init__", "infer"})
    header = (ROOT / "harness/worker/backend.hpp").read_text(encoding="utf-8")
    classes = header.partition("class Executable {")[2]
    methods = re.findall(r"^  virtual [^~]", classes, re.MULTILINE)
    design = (ROOT / "docs/explanation/design.md").read_text(encoding="utf-8")
    must = classes.count(" = 0;")
    assert f"two classes have {len(methods)} methods; a backend must write {must} of them." in design


def test_the_messages_of_the_troubleshooting_page_are_those_of_the_program() -> None:
    page = (ROOT / "docs/how-to/troubleshooting.md").read_text(encoding="utf-8")
    tables = [part for part in page.split("\n## ") if "| message |" in part]
    messages = [m for part in tables for m in re.findall(r"^\| `([^`]+)` \|", part, re.MULTILINE)]
    assert len(messages) > 20
    texts = [text for _, text in sources("harness", "backends", "scripts")]
    assert [m for m in messages if not any(m in text for text in texts)] == []
