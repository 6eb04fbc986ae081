"""A run cut into shards, and their reports joined."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import PROGRAM, assay, told

Json = dict[str, Any]

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")

SHARDS = 4
# Five ops at four sizes, which are the comparison groups, each in two modes: 40 cells.
FORTY = ("--workload", "op/relu,op/tanh,op/sigmoid,op/softplus,op/softsign", "--size", "1024,2048,4096,8192",
         "--backend", "reference", "--mode", "graph,eager", "--task", "infer", "--cache", "warm",
         "--threads", 1, "--forks", 2, "--spare-rounds", 0, "--roofline", "false",
         "--steps", 20, "--warm-up-steps", 1, "--warm-up-seconds", 0)  # fmt: skip


def read(path: Path) -> Json:
    report: Json = json.loads(path.read_text())
    return report


def shard_file(folder: Path, index: int) -> Path:
    return folder / f"shard-{index}.json"


def run_shard(folder: Path, index: int, *more: object) -> Path:
    out = shard_file(folder, index)
    done = assay("run", *FORTY, "--shard", f"{index}/{SHARDS}", "--out", out, *more)
    assert done.returncode == 0, done.stderr + done.stdout
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reports of the uncut run, of each shard, and of all shards."""
    here = tmp_path_factory.mktemp("shards")
    done = assay("run", *FORTY, "--out", here / "whole.json")
    assert done.returncode == 0, done.stderr + done.stdout
    shards = [run_shard(here, index) for index in range(1, SHARDS + 1)]
    done = assay("merge", *shards, "--out", here / "merged.json")
    assert done.returncode == 0, done.stderr + done.stdout
    return here


def steps_of(fork: Json) -> int:
    blocks = fork["blocks"]
    kinds, steps = blocks["kind"], blocks["steps"]
    count = max(len(column) for column in blocks.values() if isinstance(column, list))
    kinds = kinds if isinstance(kinds, list) else [kinds] * count
    steps = steps if isinstance(steps, list) else [steps] * count
    return sum(number for kind, number in zip(kinds, steps, strict=True) if kind == "timed")


def without_times(cell: Json) -> Json:
    """The parts of a report that the cut must not change."""
    kept = ("id", "axes", "kind", "status", "reason", "reproduce", "settings", "backend_version")
    of_check = ("checked", "passed", "worst", "tensors")
    of_fork = ("round", "seed", "status", "parameters_digest", "settings")
    found: Json = {key: cell.get(key) for key in kept}
    found["equivalence"] = {key: cell["equivalence"].get(key) for key in of_check}
    found["forks"] = [
        {key: fork.get(key) for key in of_fork} | {"steps": steps_of(fork)} for fork in cell["forks"]
    ]
    found["metrics"] = {name: (metric["unit"], metric["hint"]) for name, metric in cell["metrics"].items()}
    found["work"] = {key: cell["work"][key] for key in ("flops", "bytes")}
    return found


def test_joined_shards_equal_the_uncut_run(folder: Path) -> None:
    whole, merged = read(folder / "whole.json"), read(folder / "merged.json")
    assert len(whole["cells"]) == 40
    for a, b in zip(whole["cells"], merged["cells"], strict=True):
        assert without_times(a) == without_times(b)
    assert merged["run"]["complete"] is True
    assert merged["run"]["config"] == whole["run"]["config"]
    assert merged["run"]["settings"] == whole["run"]["settings"]
    orders = sorted(fork["order"] for cell in merged["cells"] for fork in cell["forks"])
    assert orders == list(range(80))


def test_each_shard_has_whole_groups_and_an_equal_part(folder: Path) -> None:
    owners: dict[str, set[int]] = {}
    for index in range(1, SHARDS + 1):
        report = read(shard_file(folder, index))
        assert report["run"]["shard"] == {"index": index, "count": SHARDS}
        own = [cell for cell in report["cells"] if cell.get("reason_code") != "other_shard"]
        assert len(own) == 10
        for cell in own:
            owners.setdefault(cell["id"].replace("/eager/", "/*/").replace("/graph/", "/*/"), set()).add(
                index
            )
        assert all(not cell["forks"] for cell in report["cells"] if cell not in own)
    assert len(owners) == 20
    assert all(len(shards) == 1 for shards in owners.values())


def test_a_joined_report_has_the_machine_of_each_shard(folder: Path) -> None:
    merged = read(folder / "merged.json")
    assert len(merged["environments"]) == SHARDS
    assert merged["environment"] == merged["environments"][0]
    assert [shard["index"] for shard in merged["run"]["merged"]["shards"]] == [1, 2, 3, 4]
    for cell in merged["cells"]:
        own = read(shard_file(folder, cell["environment"] + 1))
        (row,) = [other for other in own["cells"] if other["id"] == cell["id"]]
        assert row["forks"][0]["start"] == cell["forks"][0]["start"]


def check_confidence(verdict: Json) -> int:
    """Check that the compared cells share the error; return their number.

    They have a fork on each side, and two on one of them: other tests may have disturbed some.
    """
    compared = 0
    for cell in verdict["cells"]:
        forks = (cell["base"]["forks"], cell["new"]["forks"])
        assert (cell["confidence"] is not None) == (min(forks) > 0 and max(forks) > 1), cell
        compared += cell["confidence"] is not None
    assert verdict["cell_confidence"] == pytest.approx(1 - (1 - verdict["confidence"]) / max(1, compared))
    return compared


def test_the_rules_of_ratios_and_verdicts_are_those_of_the_uncut_run(folder: Path) -> None:
    documents = [told("show", "--format", "json", folder / name) for name in ("whole.json", "merged.json")]
    for document in documents:
        assert [group["title"] for group in document["groups"]] == [
            g["title"] for g in documents[0]["groups"]
        ]
        for cell in document["cells"]:
            if cell["ratio"] is None:
                continue
            base = document["cells"][cell["base"]]
            counted = [{f["round"] for f in one["forks"] if f["counted"]} for one in (cell, base)]
            assert cell["ratio"]["n"] == len(counted[0] & counted[1])
            assert cell["environment"] == base["environment"]
            assert cell["ratio"]["lower"] is None  # below six rounds
    # Other tests change the speed of a processor, and the host moves processors.
    compare = ("compare", "--allow", "speed,flags", "--format", "json", folder / "whole.json")
    verdicts = [told(*compare, folder / name, codes=(3, 6)) for name in ("whole.json", "merged.json")]
    for key in ("confidence", "threshold", "detect", "baselines"):
        assert verdicts[0][key] == verdicts[1][key]
    shard = told(*compare, shard_file(folder, 2), codes=(3,))
    for verdict, most in ((verdicts[0], 40), (verdicts[1], 40), (shard, 10)):
        assert check_confidence(verdict) <= most
    assert {one["allow"] for one in verdicts[1]["environment"]} <= {"speed"}
    assert verdicts[0]["exit_code"] == 6
    assert {cell["verdict"] for cell in verdicts[0]["cells"]} == {"inconclusive"}
    # Two forks of some microseconds may differ by any amount.
    assert {cell["verdict"] for cell in verdicts[1]["cells"]} <= {"inconclusive", "slower", "faster"}


@pytest.mark.parametrize("form", ["console", "markdown", "csv", "json"])
def test_a_joined_report_is_shown_in_every_form(folder: Path, form: str) -> None:
    done = assay("show", folder / "merged.json", "--format", form)
    assert done.returncode == 0, done.stderr
    assert "op/softsign" in done.stdout
    assert assay("validate", "--strict", folder / "merged.json").returncode == 0


def test_the_form_of_one_machine_refuses_several(folder: Path) -> None:
    done = assay("show", folder / "merged.json", "--format", "gbench")
    assert done.returncode == 2
    assert "one machine" in done.stderr


def test_a_shard_shows_only_its_own_cells(folder: Path) -> None:
    document = told("show", "--format", "json", shard_file(folder, 2))
    assert len(document["cells"]) == document["reports"][0]["cells"] == 10
    assert "other shards have 30 of its 40 cells" in assay("show", shard_file(folder, 2)).stdout


def test_a_missing_shard_is_marked_and_resumed(folder: Path, tmp_path: Path) -> None:
    merged = tmp_path / "merged.json"
    given = [shard_file(folder, index) for index in (1, 3, 4)]
    done = assay("merge", *given, "--out", merged)
    assert done.returncode == 4
    assert "Missing: shard 2." in done.stdout
    report = read(merged)
    assert report["run"]["complete"] is False
    missing = [cell for cell in report["cells"] if cell["status"] != "ok"]
    assert [cell["reason_code"] for cell in missing] == ["shard_missing"] * 10
    assert assay("validate", "--strict", merged).returncode == 0

    done = assay("run", "--resume", merged)
    assert done.returncode == 0, done.stderr + done.stdout
    resumed, whole = read(merged), read(folder / "whole.json")
    for a, b in zip(whole["cells"], resumed["cells"], strict=True):
        assert without_times(a) == without_times(b)
    assert resumed["run"]["complete"] is True
    assert len(resumed["environments"]) == 4  # three shards and this machine
    there = {cell["id"]: cell["environment"] for cell in resumed["cells"]}
    assert {there[cell["id"]] for cell in missing} == {3}
    assert assay("validate", merged).returncode == 0


def changed(folder: Path, tmp_path: Path, change: Callable[[Json], None], index: int = 2) -> Path:
    report = read(shard_file(folder, index))
    change(report)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(report))
    return path


def set_environment(report: Json) -> None:
    for machine in report["environments"]:
        machine["cpu"]["model"] = "another processor"
    report["environment"] = report["environments"][0]


def test_a_group_is_not_continued_on_another_machine(folder: Path, tmp_path: Path) -> None:
    merged = tmp_path / "merged.json"
    done = assay("merge", *[shard_file(folder, index) for index in (1, 3, 4)], "--out", merged)
    assert done.returncode == 4
    report = read(merged)
    set_environment(report)
    merged.write_text(json.dumps(report))
    # More forks of the groups that another machine measured.
    done = assay("run", "--resume", merged, "--forks", 3, "--out", tmp_path / "more.json")
    assert done.returncode == 2
    assert "another processor" in done.stderr
    # The groups that no machine began are measured here, the others stay as they are.
    done = assay("run", "--resume", merged, "--out", tmp_path / "here.json")
    assert done.returncode == 0, done.stderr + done.stdout
    before = {cell["id"]: cell for cell in report["cells"]}
    for cell in read(tmp_path / "here.json")["cells"]:
        if before[cell["id"]]["status"] == "ok":
            assert cell == before[cell["id"]]
        else:
            assert cell["environment"] == 3


def refusal(*arguments: object) -> str:
    done = assay(*arguments)
    assert done.returncode == 2, done.stderr + done.stdout
    assert done.stdout == ""
    return done.stderr


def set_commit(report: Json) -> None:
    report["run"]["commit"] = "0123abc"


def set_config(report: Json) -> None:
    report["run"]["config"]["seed"] = 7


@pytest.mark.parametrize(("change", "code"), [(set_commit, "other_build"), (set_config, "other_config")])
def test_reports_of_other_runs_are_refused(
    folder: Path, tmp_path: Path, change: Callable[[Json], None], code: str
) -> None:
    out = tmp_path / "merged.json"
    said = refusal("merge", shard_file(folder, 1), changed(folder, tmp_path, change), "--out", out)
    assert f"[merge] {code}: " in said
    assert not out.exists()


def test_reports_that_overlap_are_refused(folder: Path, tmp_path: Path) -> None:
    out, first = tmp_path / "merged.json", shard_file(folder, 1)
    assert "[merge] duplicate_forks: " in refusal("merge", first, first, "--out", out)
    again = run_shard(tmp_path, 1)
    assert "[merge] overlapping_cells: " in refusal("merge", first, again, "--out", out)
    assert "[merge] not_a_shard: " in refusal("merge", first, folder / "whole.json", "--out", out)
    assert "[merge] already_merged: " in refusal("merge", folder / "merged.json", first, "--out", out)
    assert "is one of the reports to merge" in refusal("merge", first, "--out", first)


def test_a_cut_that_cannot_be_made_is_refused(folder: Path) -> None:
    assert "use at most 20 shards" in refusal("run", *FORTY, "--shard", "1/21")
    assert "must be I/N" in refusal("run", *FORTY, "--shard", "5/4")
    assert "not a task of a Slurm job array" in refusal("run", *FORTY, "--shard", "slurm")
    assert "[resume]" in refusal("run", "--resume", shard_file(folder, 1), "--shard", "2/4")
    assert "same --filter" in refusal("run", "--resume", shard_file(folder, 1), "--filter", "op/tanh,op/relu")
    modes = [word if word != "graph,eager" else "best" for word in FORTY]
    assert "--mode best" in refusal("run", *modes, "--shard", "1/2")


def test_a_dry_run_lists_the_cells_of_the_shard() -> None:
    listed: list[str] = []
    for index in range(1, SHARDS + 1):
        done = assay("run", *FORTY, "--shard", f"{index}/{SHARDS}", "--dry-run")
        assert done.returncode == 0, done.stderr
        assert "10 of 10 cells can be run" in done.stdout
        listed += [line.split()[0] for line in done.stdout.splitlines() if line.startswith("op/")]
    assert len(listed) == len(set(listed)) == 40
