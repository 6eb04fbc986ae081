"""The wheel and `assay setup`, as far as nothing needs to be built or downloaded.

scripts/wheel --test does the rest.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from make_environment import commands
from packaging.requirements import Requirement
from program import PROGRAM, assay
from worker_under_test import ROOT

MAKER = ROOT / "backends/python/make_environment.py"
needs_program = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(file: Path) -> list[str]:
    """The lines of a file of requirements that begin a pin, without the backslash."""
    lines = file.read_text().splitlines()
    return [line.removesuffix(" \\") for line in lines if re.match(r"\w", line)]


def test_the_wheel_has_packages_and_commands_that_exist(settings: dict[str, Any]) -> None:
    packages = settings["tool"]["scikit-build"]["wheel"]["packages"]
    names = {Path(package).name for package in packages}
    assert all((ROOT / package / "__init__.py").exists() for package in packages)
    assert settings["tool"]["scikit-build"]["wheel"]["install-dir"] in names
    commands = settings["project"]["scripts"]
    assert set(commands) == {"assay", "assay-plot"}
    for place in commands.values():
        module, function = place.split(":")
        assert module.split(".")[0] in names
        assert callable(getattr(importlib.import_module(module), function))


def test_the_wheel_is_built_with_options_and_a_component_of_the_build(settings: dict[str, Any]) -> None:
    build = settings["tool"]["scikit-build"]
    sources = [ROOT / "CMakeLists.txt", *(ROOT / "harness/cmake").glob("*.cmake")]
    sources += (ROOT / "backends").glob("*/CMakeLists.txt")
    text = "\n".join(source.read_text() for source in sources)
    for option in build["cmake"]["define"]:
        assert re.search(rf"\b{re.sub('_BACKEND_.*', '_BACKEND_', option)}", text), option
    (component,) = build["install"]["components"]
    for line in re.findall(r"install\([^)]*\)", text):
        assert "COMPONENT" in line or "CODE" in line, line
    assert f"COMPONENT {component}" in text


def test_the_wheel_needs_what_plots_are_tested_with(settings: dict[str, Any]) -> None:
    tested = {pin.name: pin.specifier for pin in map(Requirement, pins(ROOT / "scripts/pinned/tools.txt"))}
    needed = list(map(Requirement, settings["project"]["dependencies"]))
    assert {requirement.name for requirement in needed} == {"altair", "vl-convert-python"}
    for requirement in needed:
        (pin,) = tested[requirement.name]
        assert requirement.specifier.contains(pin.version, prereleases=True)


def test_the_tools_of_the_build_are_pinned(settings: dict[str, Any]) -> None:
    pinned = {
        pin.name: pin.specifier for pin in map(Requirement, pins(ROOT / "scripts/pinned/wheel_tools.txt"))
    }
    wanted = (ROOT / "scripts/pinned/wheel_tools.in").read_text().split()
    assert set(wanted) <= set(pinned)
    for requirement in map(Requirement, settings["build-system"]["requires"]):
        (pin,) = pinned[requirement.name]
        assert requirement.specifier.contains(pin.version)


def made_up_wheel(folder: Path, program: str | None) -> Path:
    shutil.copytree(ROOT / "scripts/assay_program", folder / "assay_program")
    if program:
        file = folder / "assay_program/bin/assay"
        file.parent.mkdir()
        file.write_text(program)
        file.chmod(0o755)
    return folder


def call_wheel(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.argv[0] = 'assay'; sys.path.insert(0, {str(folder)!r}); import assay_program"
    command = [sys.executable, "-c", f"{code}; assay_program.main()", *arguments]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)


def test_the_console_script_becomes_the_program_next_to_it(tmp_path: Path) -> None:
    wheel = made_up_wheel(tmp_path, '#!/bin/sh\nprintf "%s\\n" "$(realpath "$0")" "$@"\nexit 3\n')
    done = call_wheel(wheel, "run", "--out", "a b")
    assert done.stdout.splitlines() == [str(wheel / "assay_program/bin/assay"), "run", "--out", "a b"]
    assert done.returncode == 3


def test_a_wheel_without_its_program_says_so(tmp_path: Path) -> None:
    done = call_wheel(made_up_wheel(tmp_path, None), "list")
    assert done.returncode == 1
    assert f"{tmp_path}/assay_program/bin/assay" in done.stderr
    assert "scripts/wheel" in done.stderr


def test_plots_of_a_wheel_ask_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_PROGRAM", raising=False)
    wheel = made_up_wheel(tmp_path, "#!/bin/sh\n")
    shutil.copytree(ROOT / "scripts/assay_plots", wheel / "assay_plots")
    code = f"import sys; sys.path.insert(0, {str(wheel)!r}); from assay_plots import analysis"
    code += "; print(analysis.find_program())"
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(wheel / "assay_program/bin/assay")


@needs_program
def test_a_dry_run_prints_every_pin_and_where_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_ENVIRONMENTS", str(tmp_path))
    done = assay("setup", "--dry-run", "torch,mxnet")
    assert done.returncode == 0, done.stderr
    for framework in ("torch", "mxnet"):
        assert str(tmp_path / framework) in done.stdout
        for pin in pins(ROOT / f"backends/{framework}/requirements.txt"):
            assert f"  {pin}\n" in done.stdout
    for package in (ROOT / "backends/mxnet/packages.txt").read_text().split():
        assert package in done.stdout
    assert not list(tmp_path.iterdir())


@needs_program
@pytest.mark.parametrize("framework", ["tensorflow", "jax"])
def test_setup_for_gpus_takes_the_requirements_for_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framework: str
) -> None:
    monkeypatch.setenv("ASSAY_ENVIRONMENTS", str(tmp_path))
    done = assay("setup", "--dry-run", "--cuda", framework)
    assert done.returncode == 0, done.stderr
    for_gpus = pins(ROOT / f"backends/{framework}/requirements-cuda.txt")
    assert any(pin.startswith("nvidia-cudnn") for pin in for_gpus)
    for pin in for_gpus:
        assert f"  {pin}\n" in done.stdout


@needs_program
def test_cuda_is_set_up_by_its_name_and_with_all_only_for_gpus() -> None:
    done = assay("setup", "--dry-run", "cuda")
    assert done.returncode == 0, done.stderr
    own = pins(ROOT / "backends/cuda/requirements-cuda.txt")
    for pin in own:
        assert f"  {pin}\n" in done.stdout
    assert "nvidia-cuda-nvcc" in assay("setup", "--dry-run", "--cuda", "all").stdout


def test_cuda_has_the_libraries_of_pytorch() -> None:
    own, theirs = (
        {Requirement(pin).name: Requirement(pin).specifier for pin in pins(file)}
        for file in (ROOT / "backends/cuda/requirements-cuda.txt", ROOT / "backends/torch/requirements.txt")
    )
    for name in ("nvidia-cudnn-cu13", "nvidia-cublas", "nvidia-nccl-cu13"):
        assert own[name] == theirs[name]


@needs_program
def test_a_framework_with_one_build_is_set_up_for_gpus_as_without() -> None:
    done = [assay("setup", "--dry-run", *cuda, "torch").stdout for cuda in ((), ("--cuda",))]
    assert done[0] == done[1]
    assert not (ROOT / "backends/torch/requirements-cuda.txt").exists()


@needs_program
def test_every_framework_can_be_set_up() -> None:
    done = assay("setup", "--dry-run", "all")
    assert done.returncode == 0, done.stderr
    frameworks = {file.parent.name for file in (ROOT / "backends").glob("*/requirements.txt")}
    assert len(frameworks) == 6
    assert set(re.findall(r"^(\w+): ", done.stdout, re.MULTILINE)) == frameworks | {"import"}


@needs_program
@pytest.mark.parametrize(
    ("name", "answer"),
    [("tourch", "'torch'"), ("nothing-like-it", "jax"), ("onednn", "no environment")],
)
def test_another_name_is_refused(name: str, answer: str) -> None:
    done = assay("setup", f"jax,{name}")
    assert done.returncode == 2
    assert answer in done.stderr
    assert done.stdout == ""


@needs_program
def test_setup_runs_the_maker_with_the_pinned_requirements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_ENVIRONMENTS", str(tmp_path / "environments"))
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nrealpath "$1" "$2" >{tmp_path}/called\necho "$3" >>{tmp_path}/called\n')
    python.chmod(0o755)
    assert assay("setup", "jax", "--python", python).returncode == 0
    assert (tmp_path / "called").read_text().splitlines() == [
        str(MAKER),
        str(ROOT / "backends/jax/requirements.txt"),
        str(tmp_path / "environments/jax"),
    ]
    python.write_text("#!/bin/sh\nexit 7\n")
    failed = assay("setup", "jax", "--python", python)
    assert failed.returncode == 2
    assert "code 7" in failed.stderr
    missing = assay("setup", "jax", "--python", tmp_path / "no-python")
    assert missing.returncode == 2
    assert "--python" in missing.stderr


UV = """#!/bin/sh
echo "$@" >>{log}
case $1 in
  venv) for last; do :; done; mkdir -p "$last/bin"; touch "$last/bin/python" ;;
  pip) exit {code} ;;
esac
"""


def make(folder: Path, code: int) -> subprocess.CompletedProcess[str]:
    uv, log = folder / "uv", folder / "log"
    uv.write_text(UV.format(log=log, code=code))
    uv.chmod(0o755)
    command = [sys.executable, MAKER, "--uv", uv, folder / "requirements.txt", folder / "environments/x"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_environment_is_made_once(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("x==1 --hash=sha256:0\n")
    assert make(tmp_path, 0).returncode == 0
    log = (tmp_path / "log").read_text()
    assert [line.split()[0] for line in log.splitlines()] == ["venv", "pip"]
    assert f"--require-hashes -r {requirements}" in log
    assert (tmp_path / "environments/x/installed.txt").read_text() == requirements.read_text()
    assert make(tmp_path, 0).returncode == 0
    assert (tmp_path / "log").read_text() == log
    requirements.write_text("x==2 --hash=sha256:0\n")
    assert make(tmp_path, 0).returncode == 0
    assert (tmp_path / "environments/x/installed.txt").read_text() == requirements.read_text()


def test_an_environment_that_failed_is_removed(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("x==1 --hash=sha256:0\n")
    failed = make(tmp_path, 5)
    assert failed.returncode == 1
    assert "pip install" in failed.stderr
    assert not (tmp_path / "environments/x").exists()


def test_without_uv_an_environment_is_made_with_pip(tmp_path: Path) -> None:
    venv, pip = commands(tmp_path / "requirements.txt", tmp_path / "x", None)
    assert venv == [sys.executable, "-m", "venv", "--clear", str(tmp_path / "x")]
    assert pip[:4] == [str(tmp_path / "x/bin/python"), "-m", "pip", "install"]
    assert "--require-hashes" in pip
