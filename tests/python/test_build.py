"""The build: which packages each part of it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from worker_under_test import ROOT

pytestmark = pytest.mark.skipif(
    not (shutil.which("cmake") and shutil.which("ninja")), reason="cmake or ninja is not installed"
)
# Options and variables that hide a package which only the program needs. valijson is only the tests'.
HIDING: dict[str, tuple[list[str], dict[str, str]]] = {
    "CLI11": (["-DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON"], {}),
    "hwloc": ([], {"PKG_CONFIG_LIBDIR": "/nowhere"}),
}


def configure(folder: Path, hidden: list[str], *options: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    command = [
        "cmake",
        "-S",
        str(ROOT),
        "-B",
        str(folder),
        "-G",
        "Ninja",
        "-DASSAY_BACKEND_ONEDNN=OFF",
        *options,
    ]
    for package in hidden:
        command += HIDING[package][0]
        environment |= HIDING[package][1]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_workers_are_built_without_the_packages_of_the_program(tmp_path: Path) -> None:
    done = configure(tmp_path, list(HIDING), "-DASSAY_CONDUCTOR=OFF", "-DVALIJSON_INCLUDE_DIR=NOTFOUND")
    assert done.returncode == 0, done.stderr
    plan = (tmp_path / "build.ninja").read_text()
    assert "backends/reference/assay-worker-reference:" in plan
    assert "libassay_batch.so" in plan
    for other in ("hwloc", "valijson", "CLI11", "harness/conductor", f"{ROOT}/tests"):
        assert other not in plan.replace(str(tmp_path), ""), other


@pytest.mark.parametrize("package", HIDING)
def test_the_program_is_not_built_without_its_packages(tmp_path: Path, package: str) -> None:
    done = configure(tmp_path, [package], "-DASSAY_TESTS=OFF")
    assert done.returncode != 0
    assert package in done.stderr + done.stdout


def test_the_commit_is_written_only_when_it_changes(tmp_path: Path) -> None:
    template = Path("harness/conductor/backends/build_info.cpp.in")
    source, output = tmp_path / "source", tmp_path / "build_info.cpp"
    (source / template).parent.mkdir(parents=True)
    shutil.copy(ROOT / template, source / template)

    def written() -> str:
        script = ROOT / "harness/cmake/BuildInfo.cmake"
        values = [f"-DSOURCE={source}", f"-DOUTPUT={output}", "-DASSAY_VERSION=1.2.3"]
        subprocess.run(["cmake", *values, "-P", script], check=True, capture_output=True)
        return output.read_text()

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        done = subprocess.run(
            ["git", "-C", source, *who, *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    assert '{"1.2.3", "", false,' in written()  # outside of git
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    commit = git("rev-parse", "--short=12", "HEAD")
    assert f'{{"1.2.3", "{commit}", false,' in written()
    before = output.stat().st_mtime_ns
    written()
    assert output.stat().st_mtime_ns == before
    (source / template).write_text((source / template).read_text() + "\n")
    assert f'{{"1.2.3", "{commit}", true,' in written()


def build_info(tree: Path) -> tuple[str, bool]:
    """Return the commit and the dirty flag that a build of the tree gets."""
    made = tree.parent / "build_info.cpp"
    script = ROOT / "harness/cmake/BuildInfo.cmake"
    subprocess.run(["cmake", f"-DSOURCE={tree}", f"-DOUTPUT={made}", "-P", str(script)], check=True)
    found = re.search(r'"([0-9a-f]*)", (true|false)', made.read_text())
    assert found
    return found[1], found[2] == "true"


def test_a_build_knows_whether_its_files_differ_from_the_commit(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    source = "harness/conductor/backends/build_info.cpp.in"
    (tree / source).parent.mkdir(parents=True)
    shutil.copy(ROOT / source, tree / source)
    (tree / ".gitignore").write_text("*.pyc\n")

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert build_info(tree) == ("", False), "it is not in a repository"
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    commit = git("rev-parse", "--short=12", "HEAD")
    assert build_info(tree) == (commit, False)
    os.utime(tree / source)
    (tree / "harness/cached.pyc").touch()
    (tree / "report.json").touch()
    assert build_info(tree) == (commit, False), "nothing that is built differs"
    (tree / "harness/new.cpp").touch()
    assert build_info(tree) == (commit, True), "the build finds new files, too"
    git("add", "harness/new.cpp")
    assert build_info(tree) == (commit, True)
    git("commit", "-m", "second")
    assert build_info(tree) == (git("rev-parse", "--short=12", "HEAD"), False)
    (tree / "harness/new.cpp").write_text("int changed;\n")
    assert build_info(tree)[1]
