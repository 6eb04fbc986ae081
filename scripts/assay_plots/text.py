"""Texts and numbers for readers: without misleading characters, and scaled to a unit."""

from __future__ import annotations

import math
import re

# Control characters, halves of surrogate pairs, and marks that change the direction of writing.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]"
)

Scales = tuple[tuple[float, float, str], ...]  # minimum size, divisor, unit

_DURATIONS: Scales = (
    (7200.0, 3600.0, "h"),
    (600.0, 60.0, "min"),
    (0.9995, 1.0, "s"),
    (0.9995e-3, 1e-3, "ms"),
    (0.9995e-6, 1e-6, "µs"),
    (0.0, 1e-9, "ns"),
)
_SIZES: Scales = (
    (2.0**40, 2.0**40, "TiB"),
    (2.0**30, 2.0**30, "GiB"),
    (2.0**20, 2.0**20, "MiB"),
    (2.0**10, 2.0**10, "KiB"),
    (0.0, 1.0, "B"),
)
_DECIMALS: Scales = (
    (0.9995e12, 1e12, "T"),
    (0.9995e9, 1e9, "G"),
    (0.9995e6, 1e6, "M"),
    (0.9995e4, 1e3, "k"),
    (0.0, 1.0, ""),
)


def clean(text: str, limit: int = 200) -> str:
    """Remove characters that a label may not have; a longer text ends in an ellipsis."""
    text = _UNSEEN.sub("\ufffd", text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def significant(value: float, digits: int = 3) -> str:
    if value == 0:
        return "0"
    leading = math.floor(math.log10(abs(value)))
    if leading >= 9 or leading < -9:
        return f"{value:.{digits - 1}e}"
    places = min(max(digits - 1 - leading, 0), 12)
    text = f"{value:.{places}f}"
    if places and abs(float(text)) >= 10.0 ** (leading + 1):  # 9.999 -> 10.0
        text = f"{value:.{places - 1}f}"
    return text


def _scaled(value: float, scales: Scales) -> tuple[str, str]:
    for least, factor, unit in scales:
        if abs(value) >= least:
            return significant(value / factor), unit
    return significant(value), ""


def parts(value: float, hint: str, unit: str) -> tuple[str, str]:
    """Return a number and its unit, scaled as the metric's hint requests."""
    if hint == "duration":
        return _scaled(value, _DURATIONS)
    if hint == "bytes":
        return _scaled(value, _SIZES)
    if hint == "percentage":
        return f"{100 * value:.1f}", "%"
    if hint == "ratio":
        return significant(value), "×"
    if hint in ("rate", "energy", "power", "count"):
        number, prefix = _scaled(value, _DECIMALS)
        return number, prefix + unit.removeprefix("1")
    return significant(value), "" if unit == "1" else unit


def shown(value: float | None, hint: str, unit: str) -> str:
    if value is None:
        return "–"
    number, scale = parts(value, hint, unit)
    return f"{number}{scale}" if scale == "×" else f"{number} {scale}".rstrip()


def shown_interval(
    value: float | None, lower: float | None, upper: float | None, hint: str, unit: str
) -> str:
    """`2.05 ms [2.00, 2.10]`: a unit that all three share appears only once."""
    text = shown(value, hint, unit)
    if value is None or lower is None or upper is None:
        return text
    scale = parts(value, hint, unit)[1]
    bounds = [parts(bound, hint, unit) for bound in (lower, upper)]
    if all(unit_of == scale for _, unit_of in bounds):
        return f"{text} [{bounds[0][0]}, {bounds[1][0]}]"
    return f"{text} [{shown(lower, hint, unit)}, {shown(upper, hint, unit)}]"


def plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
