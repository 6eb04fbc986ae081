"""scripts/plot, or assay-plot of the wheel: what a person calls."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from assay_plots.analysis import ReportError, read_study
from assay_plots.claims.catalogue import ClaimError, StudyOf, read_catalogue, study_named
from assay_plots.claims.evaluate import evaluate
from assay_plots.claims.published import values_of
from assay_plots.claims.study_page import sections_of
from assay_plots.command import exit_code
from assay_plots.figure import Figure, Plot, draw
from assay_plots.page import make_page
from assay_plots.plots import PLOTS
from assay_plots.render import Spec, spec_of, write_figure
from assay_plots.report import Study

FORMATS = ("html", "svg", "png")
NAME = "assay-plot" if Path(sys.argv[0]).name == "assay-plot" else "scripts/plot"


def names(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        given = text.split(",")
        for name in given:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"no {name}: there are {', '.join(allowed)}")
        return given

    return parse


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=NAME,
        description="Draw reports: a page that opens from disk, and each picture as SVG and PNG.",
        epilog="pictures: " + ", ".join(plot.name for plot in PLOTS),
    )
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT", help="a report of assay run")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="output folder [next to the first REPORT: <its name>.plots/]",
    )
    parser.add_argument(
        "--format", type=names(FORMATS), default=FORMATS, metavar="NAME,...", help="html, svg, png [all]"
    )
    parser.add_argument(
        "--only", type=names([p.name for p in PLOTS]), metavar="NAME,...", help="only these pictures [all]"
    )
    parser.add_argument(
        "--study",
        metavar="NAME",
        help="the page of a study: its text, its claims and its pictures (results/claims.json)",
    )
    parser.add_argument(
        "--filter", default="", metavar="TEXT,...", help="only cells whose id contains one of these texts"
    )
    parser.add_argument(
        "--program",
        type=Path,
        metavar="FILE",
        help="the program assay, which analyzes the reports [this checkout's build]",
    )
    return parser


def read(paths: Sequence[Path], text: str, program: Path | None = None) -> Study:
    if len({path.resolve() for path in paths}) < len(paths):
        raise ReportError(f"{paths[0]}: the same report is given twice")
    for path in paths:
        path.open("rb").close()
    study = read_study(paths, text, program)
    if not study.cells:
        raise ReportError(f"{', '.join(str(path) for path in paths)}: contains no cells")
    return study


def plots_of(study_of: StudyOf | None, only: Sequence[str] | None) -> list[Plot]:
    """Choose the pictures: those of a study in its order, or all. Raises ClaimError."""
    by_name = {plot.name: plot for plot in PLOTS}
    for name in study_of.figures if study_of else ():
        if name not in by_name:
            raise ClaimError(f"study {study_of.name if study_of else ''}: unknown picture {name}")
    wanted = study_of.figures if study_of else tuple(by_name)
    return [by_name[name] for name in wanted if not only or name in only]


def run(arguments: argparse.Namespace) -> None:
    study_of = study_named(read_catalogue(), arguments.study) if arguments.study else None
    if study_of and arguments.filter:
        raise ClaimError("--study decides on whole reports: leave out --filter")
    plots = plots_of(study_of, arguments.only)
    study = read(arguments.reports, arguments.filter, arguments.program)
    first: Path = arguments.reports[0]
    folder: Path = arguments.out or first.with_name(f"{Path(first.name.removesuffix('.gz')).stem}.plots")
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[tuple[Figure, list[Spec]]] = []
    for plot in plots:
        figure = draw(plot, study)
        specs = [spec_of(panel) for panel in figure.panels]
        drawn.append((figure, specs))
        if figure.left_out:
            print(f"{plot.name} is left out: {figure.left_out}", file=sys.stderr)
            continue
        for path in write_figure(figure, specs, folder, arguments.format):
            print(path)
    if "html" in arguments.format:
        page = folder / "index.html"
        sections = []
        if study_of:
            decided = evaluate(study_of, study, arguments.reports, arguments.program)
            values = values_of(study_of, study, arguments.reports, arguments.program)
            sections = sections_of(study_of, study, *decided, values, arguments.program)
        title = study_of.title if study_of else ""
        page.write_text(make_page(study, drawn, title, sections), encoding="utf-8")
        print(page)


def main() -> int:
    arguments = options().parse_args()
    return exit_code(NAME, lambda: run(arguments))


if __name__ == "__main__":
    sys.exit(main())
