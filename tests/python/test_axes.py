"""An axis that only its row in the table knows: what a report says of it reaches the plots."""

from __future__ import annotations

import json
from pathlib import Path

import made_report
import pytest
from assay_plots.analysis import read_study
from program import PROGRAM

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


def test_made_up_axis_tells_groups_apart_and_is_in_their_names(tmp_path: Path) -> None:
    report = made_report.everything()
    plain = report["cells"][0]
    warped = json.loads(json.dumps(plain))
    # Version 2 has the axes in a separate object.
    warped.get("axes", warped)["variant"] = {"warp-factor": "7"}
    warped["id"] = plain["id"].removesuffix("/steps") + "/warp-factor=7/steps"
    report["cells"] = [plain, warped]
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    groups = read_study([path], program=PROGRAM).groups
    assert [group.title.removesuffix(", steps") for group in groups][1].endswith(", warp-factor 7")
    assert "warp-factor" not in groups[0].title
    assert "warp-factor 7" in groups[1].heading.about
    assert groups[1].cells[0].id.endswith("/warp-factor=7/steps")
