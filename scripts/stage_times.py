"""Where the time of scripts/test went: the slowest tests, and each stage with its budget.

    stage_times.py FOLDER STAGE=SECONDS...

FOLDER has one JUnit file for each process of tests (GoogleTest's and pytest's own). The budgets in
test_budget.json are seconds on two cores. A stage that exceeds its budget by half is named in a warning.
"""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

SHOWN = 30
TOLERANCE = 1.5


@dataclass(frozen=True)
class Case:
    """One test, with the name of the process that it ran in."""

    name: str
    seconds: float
    outcome: str


def cases_of(path: Path) -> list[Case]:
    cases = []
    for case in ET.parse(path).getroot().iter("testcase"):
        outcome = "passed"
        if case.find("failure") is not None or case.find("error") is not None:
            outcome = "failed"
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            outcome = "skipped"
        name = f"{path.stem} {case.get('classname')}.{case.get('name')}"
        cases.append(Case(name, float(case.get("time", 0)), outcome))
    return cases


def over_budget(stages: dict[str, float], budget: dict[str, float]) -> list[str]:
    return [
        f"warning: {stage} took {seconds:.0f} s, its budget is {budget[stage]:.0f} s on two cores"
        for stage, seconds in stages.items()
        if stage in budget and seconds > TOLERANCE * budget[stage]
    ]


def main() -> None:
    folder = Path(sys.argv[1])
    stages = {name: float(seconds) for name, _, seconds in (s.rpartition("=") for s in sys.argv[2:])}
    budget = json.loads((Path(__file__).parent / "test_budget.json").read_text())
    cases = [case for path in sorted(folder.glob("*.xml")) for case in cases_of(path)]
    print(f"\n== The {SHOWN} slowest tests")
    for case in sorted(cases, key=lambda case: -case.seconds)[:SHOWN]:
        print(f"{case.seconds:8.1f} s  {case.name}")
    print("\n== Stages")
    for stage, seconds in stages.items():
        print(f"{seconds:8.0f} s  {stage}" + (f" (budget {budget[stage]} s)" if stage in budget else ""))
    print(f"{sum(stages.values()):8.0f} s  in all")
    print("\n".join(over_budget(stages, budget)))
    counts = [sum(case.outcome == outcome for case in cases) for outcome in ("passed", "failed", "skipped")]
    print("tests: {} passed, {} failed, {} skipped".format(*counts))


if __name__ == "__main__":
    main()
