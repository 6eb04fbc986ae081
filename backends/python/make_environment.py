#!/usr/bin/env python3
"""Makes the virtual environment of a framework from its pinned requirements.

    make_environment.py [--uv UV] REQUIREMENTS ENVIRONMENT

`scripts/setup` and `assay setup` call it. It needs no package. The environment has this Python.
A copy of REQUIREMENTS in the environment, installed.txt, says what it has.
If they are equal, nothing is installed.
installed_size says how many bytes its files have; workers report it.
If the installation fails, the environment is removed, so that its backend stays unavailable.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)  # for which the requirements are pinned


def is_made(requirements: Path, environment: Path) -> bool:
    installed = environment / "installed.txt"
    return installed.exists() and installed.read_bytes() == requirements.read_bytes()


def size_of(folder: Path) -> int:
    """Return the bytes of all files of a folder. Links are not followed."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def note_size(environment: Path) -> None:
    (environment / "installed_size").write_text(f"{size_of(environment)}\n")


def commands(requirements: Path, environment: Path, uv: str | None) -> list[list[str]]:
    python = str(environment / "bin/python")
    pinned = ["--require-hashes", "-r", str(requirements)]
    if uv:
        # Without bytecode the first process of each run would compile it.
        return [
            [uv, "venv", "-q", "--clear", "--python", sys.executable, str(environment)],
            [uv, "pip", "install", "-q", "--compile-bytecode", "--python", python, *pinned],
        ]
    return [
        [sys.executable, "-m", "venv", "--clear", str(environment)],
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *pinned],
    ]


def compile_adapter(requirements: Path, environment: Path) -> None:
    """Compile the worker's own modules for this Python, because a worker may not write next to them."""
    folders = [str(Path(__file__).parent / "assay_worker"), str(requirements.parent)]
    command = [str(environment / "bin/python"), "-m", "compileall", "-q", *folders]
    with contextlib.suppress(OSError):  # without bytecode, workers only start more slowly
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def make(requirements: Path, environment: Path, uv: str | None) -> None:
    environment.parent.mkdir(parents=True, exist_ok=True)
    try:
        # With PYTHONPATH, pip takes packages for installed that are elsewhere.
        own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        for command in commands(requirements, environment, uv):
            subprocess.run(command, check=True, env=own)
        note_size(environment)
        shutil.copyfile(requirements, environment / "installed.txt")
    except BaseException:
        shutil.rmtree(environment, ignore_errors=True)
        raise


def main() -> int:
    # If it is inherited as ignored, every child seems to succeed.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parser = argparse.ArgumentParser(
        description="Make the virtual environment of a framework from its pinned requirements."
    )
    parser.add_argument("--uv", help="the program uv, which installs faster than pip")
    parser.add_argument("requirements", type=Path)
    parser.add_argument("environment", type=Path)
    given = parser.parse_args()
    if sys.version_info < OLDEST:
        needed = ".".join(map(str, OLDEST))
        print(f"error: {sys.executable} is older than Python {needed}; name another one", file=sys.stderr)
        return 2
    if is_made(given.requirements, given.environment):
        if not (given.environment / "installed_size").exists():
            note_size(given.environment)  # an older one
        compile_adapter(given.requirements, given.environment)
        print(f"{given.environment} is there already")
        return 0
    try:
        make(given.requirements, given.environment, given.uv)
    except subprocess.CalledProcessError as error:
        print(f"error: {given.environment} was not made: this failed: {' '.join(error.cmd)}", file=sys.stderr)
        if "venv" in error.cmd:
            print("Debian and Ubuntu have venv in a package: apt-get install python3-venv", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {given.environment} was not made: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    compile_adapter(given.requirements, given.environment)
    print(f"{given.environment} is made")
    return 0


if __name__ == "__main__":
    sys.exit(main())
