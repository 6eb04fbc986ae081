"""Every command in the documentation is run by a test, or marked as an example.

A comment `<!-- example -->` above a block marks it: no test here runs its commands.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import blocks, commands_of
from program import BUILD, PROGRAM, assay
from worker_under_test import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
needs_program = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
ASSAY = re.compile(r"(?:ASSAY_BACKENDS=\S+ )?(?:build/\w+/)?assay (\w.*)")
# What a reader fills in.
SUBSTITUTES = (
    (r"--backend <name>", "--backend numpy"),
    (r"<name>", "lenet5"),
    (r"\bREPORT(\.\.\.)?", "report.json"),
)
# Other commands, and the file that runs them: it has the second text.
ELSEWHERE = {
    r"\. scripts/common\.sh && build release( -DASSAY_TESTS=OFF)?": (
        ".github/workflows/ci.yml",
        "scripts/common.sh && build release -DASSAY_TESTS=OFF",
    ),
    r"assay/bin/.*|python3 -m venv assay": ("tests/install/fresh_wheel.sh", "assay/bin/pip install"),
    r"scripts/setup( --framework \w+)*": (".github/workflows/nightly.yml", "run: scripts/setup"),
    r"scripts/test": (".github/workflows/ci.yml", "run: scripts/test"),
    r"scripts/format": (".github/workflows/ci.yml", "scripts/format --check"),
    r"scripts/lab/check-types": (".github/workflows/ci.yml", "scripts/lab/check-types"),
    r"scripts/quickstart": ("tests/install/fresh_debian.sh", "scripts/quickstart"),
    r"scripts/plot (\S+\.json ?)+.*": ("tests/python/test_recipes.py", '"scripts/plot"'),
    r"scripts/plot --study .*": ("tests/python/test_claims.py", "--study"),
    r"scripts/new-backend .*": ("tests/python/test_recipes.py", '"scripts/new-backend"'),
    r"scripts/claims .*": ("tests/python/test_claims.py", "scripts/claims"),
    r"scripts/lab/campaign .*": ("tests/python/campaigns.py", "scripts/lab/campaign"),
    r"scripts/lab/verify-overhead .*": (
        "tests/python/test_verify_overhead.py",
        "scripts/lab/verify-overhead",
    ),
    r"source <\(assay completion bash\)": ("tests/python/test_completion.py", "source <(assay completion"),
    r"build/dev/backends/reference/.*|echo '\{.*": (
        "tests/python/test_doc_commands.py",
        "test_one_worker_is_run_by_hand",
    ),
}
# The shell itself.
PLAIN = re.compile(
    r"export PATH=\$PWD/build/release:\$PATH|echo \$\?|timeout 60 sh -c 'while :; do :; done' &"
)


def commands() -> list[str]:
    return sorted({one for page in PAGES for one in commands_of(page.read_text(encoding="utf-8"))})


def filled(command: str) -> str:
    for pattern, value in SUBSTITUTES:
        command = re.sub(pattern, value, command)
    return command


def calls() -> list[str]:
    """The arguments of every call of the program."""
    return sorted({match[1] for one in commands() if (match := ASSAY.fullmatch(filled(one)))})


def test_every_command_is_run_or_marked_as_an_example() -> None:
    others = [one for one in commands() if not (ASSAY.fullmatch(one) or PLAIN.fullmatch(one))]
    others = [one for one in others if not one.startswith("jq ")]
    assert [one for one in others if not any(re.fullmatch(each, filled(one)) for each in ELSEWHERE)] == []
    assert [each for each in ELSEWHERE if not any(re.fullmatch(each, filled(one)) for one in others)] == []


@pytest.mark.parametrize(("file", "text"), ELSEWHERE.values())
def test_a_command_that_is_run_elsewhere_is_in_that_file(file: str, text: str) -> None:
    assert text in (ROOT / file).read_text(encoding="utf-8")


def spans(begin: str) -> list[tuple[str, str]]:
    """The code spans in the text of all pages that begin so: the next word, and the rest."""
    found = re.compile(rf"`(?:build/\w+/)?{begin}([a-z][\w-]*)([^`]*)`")
    return sorted({span for page in PAGES for span in found.findall(page.read_text(encoding="utf-8"))})


@needs_program
def test_a_call_in_the_text_has_a_command_and_its_options() -> None:
    calls_in_text = spans("assay ")
    assert len(calls_in_text) > 40
    helps = {command: assay(command, "--help") for command, _ in calls_in_text}
    assert [command for command, done in helps.items() if done.returncode != 0] == []
    for command, rest in calls_in_text:
        options = re.findall(r"--[a-z][\w-]*", rest)
        assert [one for one in options if one not in helps[command].stdout] == [], f"assay {command}{rest}"


def test_a_script_in_the_text_has_its_options() -> None:
    packages = ("scripts", "tests/mutants", "backends/python")
    sources = [file for folder in packages for file in (ROOT / folder).rglob("*") if file.is_file()]
    text = "".join(file.read_text(encoding="utf-8", errors="replace") for file in sources)
    for script, rest in spans("scripts/"):
        for option in re.findall(r"--[a-z][\w-]*", rest):
            assert re.search(rf"[\"' ]{option}\b", text), f"scripts/{script}{rest}"


def test_blocks_and_commands_are_found() -> None:
    page = """Text.

    assay list  # a comment
    assay run x \\
      --quick

    name  kind

- item

      scripts/plot a.json

<!-- example -->

    assay no-such-command

```sh
assay show --format json r.json |
  jq .
```
"""
    assert list(commands_of(page)) == [
        "assay list",
        "assay run x    --quick",
        "scripts/plot a.json",
        "assay show --format json r.json |   jq .",
    ]
    assert [marked for _, _, marked in blocks(page)] == [False, False, True, False]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands name: reports, and the arrays of the page about own data."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "reports").mkdir()
    (folder / "results").symlink_to(ROOT / "results")
    (folder / "baselines").mkdir()
    shutil.copy(ROOT / "tests/cli/data/report.json", folder / "baselines")
    for name in {name for call in calls() for name in re.findall(r"[\w./-]+\.json", call)}:
        if not name.startswith(("/", "results/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "tests/cli/data/report.json", folder / name)
    page = (ROOT / "docs/how-to/own-data.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    subprocess.run([sys.executable, "-c", example], cwd=folder, check=True)
    return folder


@needs_program
@pytest.mark.parametrize("call", calls())
def test_the_program_understands_a_command(call: str, desk: Path) -> None:
    words = [re.sub("^~", str(desk), word) for word in shlex.split(call.split("|")[0])]
    codes = {0}
    if words[0] in ("run", "check", "ab"):
        words.append("--dry-run")
    elif words[0] == "setup":  # nothing is downloaded
        words = [word for word in words if word != "--dry-run"] + ["--dry-run"]
    elif words[0] == "docs":
        words = [word for word in words if word != "--check"] + ["--check", "--out", f"{ROOT}/docs/reference"]
    elif words[0] == "compare":
        codes = {0, 3, 4, 5, 6}
    elif words[0] == "merge":
        codes = {2}  # the reports of this desk are of whole runs
    elif words[0] == "man" and "--folder" in words:
        words[-1] = str(desk / "man")
    elif words[0] in ("calibrate", "import"):  # without a dry run, or of a user's file
        options = [word for word in words if word.startswith("--")]
        words = [words[0], "--help"]
    done = assay(*words, folder=desk)
    if done.returncode == 4 and " is not set up: " in done.stdout:
        pytest.skip("the command names a framework that is not set up")
    assert done.returncode in codes, done.stderr
    if words[0] in ("calibrate", "import"):
        assert [option for option in options if option not in done.stdout] == []


@needs_program
@pytest.mark.parametrize("command", [one for one in commands() if re.search(r"^jq |\| +jq ", one)])
def test_jq_understands_a_filter(command: str, desk: Path) -> None:
    if not shutil.which("jq"):
        pytest.skip("jq is not installed")
    sample = ROOT / "results/samples/smartia-table-4/mlp.json.gz"
    (desk / "report.json").write_bytes(gzip.decompress(sample.read_bytes()))
    shutil.copy(desk / "report.json", desk / "reports/noisy.json")
    environment = os.environ | {"PATH": f"{BUILD}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=desk, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "\t" in done.stdout


@needs_program
def test_one_worker_is_run_by_hand_as_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs/how-to/debug-a-check.md").read_text(encoding="utf-8")
    keep, send, work = (
        next(line.strip() for line in page.splitlines() if line.startswith(f"    {begin}"))
        for begin in ("build/dev/assay run", "echo ", "build/dev/backends/reference")
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}

    def shell(line: str, folder: str = "") -> str:
        line = line.replace("build/dev", str(BUILD)).replace("/tmp/", f"{tmp_path}/")
        line = line.replace("CELL_FOLDER", folder)
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    shell(keep)
    (request,) = tmp_path.glob("assay-*/mlp_*/request.json")
    shell(send)
    assert '"compiled"' in shell(work, str(request.parent))
