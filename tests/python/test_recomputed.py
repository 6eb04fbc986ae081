"""scripts/lab/recompute, which shares no code with Assay: it finds every number of the page of results."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest
from worker_under_test import ROOT

Check = Callable[[str], list[str]]
PAGE = (ROOT / "results/README.md").read_text(encoding="utf-8")
LAST_DIGITS = [found.end() - 1 for found in re.finditer(r"\d+(?:\.\d+)?", PAGE)]
TRIED = 12


@pytest.fixture(scope="module")
def check() -> Check:
    loader = SourceFileLoader("recompute", str(ROOT / "scripts/lab/recompute"))
    spec = spec_from_loader("recompute", loader)
    assert spec
    module = module_from_spec(spec)
    loader.exec_module(module)
    found: Check = module.check
    return found


def test_it_shares_no_code_with_the_project() -> None:
    source = (ROOT / "scripts/lab/recompute").read_text(encoding="utf-8")
    imported = set(re.findall(r"^(?:from|import) ([a-z_]+)", source, re.MULTILINE))
    assert imported <= {"__future__", "collections", "functools", "gzip", "itertools", "json"} | {
        *("math", "pathlib", "re", "shlex", "sys", "typing"),
    }
    assert '"metrics"' not in source.replace('cell["metrics"].get(key)', ""), "only the sizes of plans"


def test_every_number_of_the_page_is_recomputed(check: Check) -> None:
    assert check(PAGE) == []


def changed(at: int) -> str:
    digit = str((int(PAGE[at]) + 1) % 10)
    return PAGE[:at] + digit + PAGE[at + 1 :]


def test_a_number_that_is_changed_in_its_last_digit_is_found(check: Check) -> None:
    """Of some thousand numbers a few, other ones for each page; each kind of table has one."""
    chosen = set(random.Random(len(PAGE)).sample(LAST_DIGITS, TRIED))
    tables = ("What differs", "Values", "Measured", "Compared", "Claims", "Their claims")
    for heading in ("\n| [", *(f"### {table}" for table in tables), "The verdicts below", "- **"):
        begin = PAGE.index(heading)
        chosen.add(next(at for at in LAST_DIGITS if at > begin))
    survived = [line_of(at) for at in sorted(chosen) if not check(changed(at))]
    assert survived == []


def line_of(at: int) -> str:
    begin, end = PAGE.rfind("\n", 0, at) + 1, PAGE.find("\n", at)
    return f"{PAGE[begin:at]}>{PAGE[at]}<{PAGE[at + 1 : end]}"
