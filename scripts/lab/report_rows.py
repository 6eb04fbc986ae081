"""Reads the columns of a report (docs/reference/report.md) as rows."""

from __future__ import annotations

from typing import Any


def rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one object per entry; a column of one value has that value in every row."""
    count = next((len(column) for column in columns.values() if isinstance(column, list)), 0)
    return [{name: c[i] if isinstance(c, list) else c for name, c in columns.items()} for i in range(count)]
