"""Tests of what the adapters' walks over a graph share."""

from __future__ import annotations

from assay_worker import last_reads


def test_a_value_is_dropped_by_its_last_reader() -> None:
    steps = [(["x", "w"], ["a"]), (["a", None], ["b"]), (["a", "b"], ["c", None]), (["c", "b"], ["loss"])]
    found = [sorted(names) for names in last_reads(steps, {"loss"})]
    assert found == [[], [], ["a"], ["b", "c"]]


def test_kept_and_given_values_are_not_dropped() -> None:
    steps = [(["x"], ["a"]), (["a", "x"], ["b"]), (["b"], ["c"])]
    assert last_reads(steps, {"a", "c"}) == [[], [], ["b"]]


def test_a_value_that_nothing_reads_is_not_dropped() -> None:
    assert last_reads([(["x"], ["a", "unused"]), (["a"], ["b"])], ()) == [[], ["a"]]
