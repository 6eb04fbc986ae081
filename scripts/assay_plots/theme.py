"""Colours that are readable on white and black and for the colour-blind; and the style of a chart."""

from __future__ import annotations

from typing import Any, Literal

# At least 3:1 on both backgrounds (WCAG 1.4.11), which tests check. Shapes and dashes repeat each colour.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#b8629a", "#7f7f7f", "#a07000", "#4a86e8", "#c0504d")
SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
DISTINCT = len(SERIES) * len(DASHES)  # series that a picture can tell apart
PUBLISHED = "#d1007f"
LIMIT = "#d6281e"

Mode = Literal["light", "dark"]
PAPER: dict[Mode, str] = {"light": "#ffffff", "dark": "#16191f"}
INK: dict[Mode, str] = {"light": "#1f2328", "dark": "#e6e9ee"}
FAINT: dict[Mode, str] = {"light": "#5b636e", "dark": "#a3acb9"}
GRID: dict[Mode, str] = {"light": "#dfe3e8", "dark": "#343a44"}
FONT = "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif"


def colour_of(number: int) -> str:
    """Return the colour of a series by its number; it repeats after eight."""
    return SERIES[number % len(SERIES)]


def shape_of(number: int) -> str:
    """Return the shape of its points: series of one colour have different ones."""
    return SHAPES[(number + number // len(SERIES)) % len(SHAPES)]


def dash_of(number: int) -> list[int]:
    """Return the dashes of its line: up to DISTINCT, series of one colour have different ones."""
    return DASHES[(number + number // len(SERIES)) % len(DASHES)]


def config(mode: Mode) -> dict[str, Any]:
    """Return the Vega-Lite config of a mode; charts set no colours of text and lines themselves."""
    text = {"labelColor": INK[mode], "titleColor": INK[mode], "labelFont": FONT, "titleFont": FONT}
    return {
        "background": PAPER[mode],
        "font": FONT,
        "title": {"color": INK[mode], "font": FONT, "anchor": "start", "fontSize": 13, "fontWeight": 600}
        | {"subtitleColor": FAINT[mode], "subtitleFont": FONT, "subtitleFontSize": 11},
        "view": {"stroke": None},
        "axis": text
        | {
            "gridColor": GRID[mode],
            "domainColor": FAINT[mode],
            "tickColor": FAINT[mode],
            "labelFontSize": 11,
            "titleFontSize": 12,
            "titleFontWeight": 400,
            "labelLimit": 190,
            "titlePadding": 8,
        },
        "legend": text
        | {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": 400, "labelLimit": 220},
        "text": {"color": INK[mode], "font": FONT, "fontSize": 11},
        "rule": {"color": INK[mode]},
        "tick": {"color": INK[mode]},
        "line": {"strokeWidth": 2},
    }
