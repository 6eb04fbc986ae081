"""Charts as specifications, SVG and PNG, made without the network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from assay_plots.figure import Figure, Panel
from assay_plots.theme import Mode, config

WIDTH = 560
PNG_SCALE = 2.0

Spec = dict[str, Any]


def spec_of(panel: Panel) -> Spec:
    """Return a panel's Vega-Lite specification without a width, a title or a theme."""
    with alt.data_transformers.enable("default", max_rows=None):
        spec: Spec = panel.chart.to_dict()
    spec.pop("config", None)
    return spec


def _checked(spec: Spec) -> str:
    return json.dumps(spec, allow_nan=False)


def panel_svg(spec: Spec, mode: Mode = "light") -> str:
    whole = spec | {"width": WIDTH, "config": config(mode)}
    return vl_convert.vegalite_to_svg(_checked(whole), vl_version=vega_lite_version(), allowed_base_urls=[])


def figure_svg(figure: Figure, specs: Sequence[Spec]) -> str:
    """Put all panels of a figure in one picture, from top to bottom."""
    panels: list[Spec] = []
    datasets: Spec = {}
    for of, spec in zip(figure.panels, specs, strict=True):
        panel = {key: value for key, value in spec.items() if key not in ("$schema", "datasets")}
        datasets |= spec.get("datasets", {})
        title = {"text": of.heading.title, "subtitle": of.heading.about}
        panels.append(panel | {"width": WIDTH, "title": title})
    whole: Spec = {
        "$schema": specs[0]["$schema"],
        "title": {"text": figure.plot.title, "fontSize": 17, "offset": 14},
        "vconcat": panels,
        "spacing": 34,
        "datasets": datasets,
        "resolve": {"scale": dict.fromkeys(("color", "shape", "strokeDash"), "independent")},
        "config": config("light") | {"padding": 16},
    }
    return vl_convert.vegalite_to_svg(_checked(whole), vl_version=vega_lite_version(), allowed_base_urls=[])


def vega_lite_version() -> str:
    """Return the version of Vega-Lite that vl-convert has and Altair writes: "6.4"."""
    return ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def write_figure(figure: Figure, specs: Sequence[Spec], folder: Path, formats: Sequence[str]) -> list[Path]:
    """Write the figure as `<name>.svg` and `<name>.png`, or the requested one of them."""
    if not {"svg", "png"} & set(formats):
        return []
    svg = figure_svg(figure, specs)
    written: list[Path] = []
    if "svg" in formats:
        written.append(folder / f"{figure.plot.name}.svg")
        written[-1].write_text(svg, encoding="utf-8")
    if "png" in formats:
        written.append(folder / f"{figure.plot.name}.png")
        written[-1].write_bytes(vl_convert.svg_to_png(svg, scale=PNG_SCALE))
    return written
