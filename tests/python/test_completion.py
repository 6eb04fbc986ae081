"""Completion: what the program prints, and what bash makes of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from program import BUILD, PROGRAM, assay

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


def candidates(*words: str) -> list[str]:
    done = assay("__complete", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def commands() -> list[str]:
    """As the help lists them."""
    listed = assay("--help").stdout.split("Subcommands:\n")[1].split("\n\n")[0]
    return re.findall(r"^  (\S+)", listed, re.MULTILINE)


def options_of(command: str) -> set[str]:
    return set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", assay(command, "--help").stdout, re.MULTILINE))


def test_a_first_word_is_a_command() -> None:
    assert sorted(candidates("")) == sorted(commands())
    assert candidates("cal") == ["calibrate"]
    assert candidates("nothing") == []


def test_every_option_of_every_command_is_a_candidate() -> None:
    for command in commands():
        assert set(candidates(command, "--")) == options_of(command), command
    assert candidates("run", "--weight") == ["--weight-decay", "--weights"]


def test_a_value_comes_from_the_option_table() -> None:
    assert candidates("run", "--task", "") == ["train", "infer", "decode"]
    assert candidates("run", "--task", "tr") == ["train"]
    assert candidates("run", "--until", "") == ["forks", "clear"]
    assert candidates("run", "--check=") == ["--check=true", "--check=false"]


def test_a_value_comes_from_what_is_here() -> None:
    assert {"lenet5", "op/gemm"} <= set(candidates("inspect", ""))
    assert {"reference", "numpy"} <= set(candidates("run", "--backend", ""))
    assert "quickstart" in candidates("run", "")
    assert "primitives" in candidates("run", "--mode", "prim")
    assert "fashion-mnist" in candidates("check", "--dataset", "fa")


def test_a_value_comes_from_the_words_that_a_command_takes() -> None:
    assert candidates("list", "data") == ["datasets"]
    assert candidates("show", "report.json", "--format", "m") == ["markdown"]
    assert candidates("compare", "--format", "j") == ["json", "junit"]
    assert candidates("completion", "") == ["bash"]


def test_only_the_last_value_of_a_list_is_completed() -> None:
    assert candidates("run", "--workload", "lenet5,ml") == ["lenet5,mlp"]
    assert candidates("run", "--workload=lenet5,ml") == ["--workload=lenet5,mlp"]
    assert candidates("compare", "--allow", "settings,qu") == ["settings,quick"]
    assert candidates("run", "--data", "lenet5,") == []


def test_bash_may_split_at_the_equal_sign() -> None:
    assert candidates("run", "--task", "=") == ["train", "infer", "decode"]
    assert candidates("run", "--task", "=", "tr") == ["train"]


def test_a_word_after_an_option_and_its_value_is_an_argument_again() -> None:
    assert candidates("run", "--forks", "3", "quickst") == ["quickstart"]
    assert candidates("run", "--quick", "quickst") == ["quickstart"]


def test_where_the_program_knows_nothing_the_shell_completes_files() -> None:
    for words in (["show", ""], ["run", "--out", ""], ["run", "quickstart", "x"], ["unknown", ""]):
        assert candidates(*words) == []


def bash(line: str, folder: Path) -> list[str]:
    """Complete the line as a terminal would, with the completion that bash registered."""
    words = line.split(" ")
    script = f"""
        source <(assay completion bash)
        [[ $(complete -p assay) == 'complete -o default -F _assay assay' ]] || exit 9
        COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
        COMP_CWORD={len(words) - 1}
        COMP_LINE='{line}'
        _assay assay '{words[-1]}' '{words[-2]}'
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = {"PATH": f"{BUILD}:/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(
        ["bash", "--norc", "-u", "-c", script], env=environment, cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("assay va", ["validate"]),
        ("assay run --task ", ["train", "infer", "decode"]),
        ("assay run --task = in", ["infer"]),
        ("assay run --workload lenet5,resnet56", ["lenet5,resnet56"]),
        (
            "assay run --workload lenet5,resnet50",
            ["lenet5,resnet50", "lenet5,resnet50_keras"],
        ),
        ("assay run quickst", ["quickstart"]),
        ("assay show --format c", ["console", "csv"]),
        ("assay show no-such-file", []),
    ],
)
def test_bash_completes(line: str, expected: list[str], tmp_path: Path) -> None:
    assert sorted(bash(line, tmp_path)) == sorted(expected)


def test_another_shell_is_refused() -> None:
    done = assay("completion", "zsh")
    assert done.returncode == 2
    assert "one for bash" in done.stderr
