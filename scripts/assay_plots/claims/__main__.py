"""scripts/claims: what a person calls."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from assay_plots.analysis import read_study
from assay_plots.claims.catalogue import CATALOGUE, ClaimError, StudyOf, read_catalogue, study_named
from assay_plots.claims.evaluate import Line, evaluate, is_of, read_for
from assay_plots.claims.output import FORMATS, WRITERS, markdown_table
from assay_plots.claims.results_page import results_page
from assay_plots.command import exit_code
from assay_plots.report import Study


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/claims",
        description="Say by reports which claims of studies hold: a table of published and measured values.",
        epilog="exit codes: 0 written, 1 a fault of the program, 2 wrong input or a wrong option",
    )
    parser.add_argument("reports", nargs="*", type=Path, metavar="REPORT", help="a report of assay run")
    parser.add_argument(
        "--study",
        metavar="NAME,...",
        help="decide the claims of these studies by all REPORTs [each REPORT by that of its config]",
    )
    parser.add_argument("--format", choices=FORMATS, default="markdown", help="[markdown]")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the table goes [standard output]")
    parser.add_argument(
        "--results",
        action="store_true",
        help="write the page of results from the shipped samples",
    )
    parser.add_argument("--list", action="store_true", help="list the studies, with their configs")
    parser.add_argument(
        "--catalogue", type=Path, default=CATALOGUE, metavar="FILE", help="the claims [results/claims.json]"
    )
    parser.add_argument(
        "--program",
        type=Path,
        metavar="FILE",
        help="assay, which analyzes the reports [this checkout's build]",
    )
    return parser


def _decided(
    studies: Sequence[StudyOf], reports: Sequence[Path], program: Path | None
) -> list[tuple[Study, list[Line]]]:
    """Give each study the reports that are of it."""
    whole = read_study(reports, "", program)
    out: list[tuple[Study, list[Line]]] = []
    for study_of in studies:
        paths = [path for i, path in enumerate(reports) if is_of(study_of, whole, i, path)]
        if len(paths) == len(reports):
            out.append((whole, evaluate(study_of, whole, paths, program)[0]))
        elif paths:
            study, lines, _ = read_for(study_of, paths, program)
            out.append((study, lines))
    if not out:
        raise ClaimError(
            f"{', '.join(map(str, reports))}: no config of a study measured it; --study NAME says whose it is"
        )
    return out


def listed(studies: Sequence[StudyOf]) -> str:
    rows = ((one.name, ", ".join(one.configs), str(len(one.claims)), one.title) for one in studies)
    return markdown_table(("study", "configs", "claims", "what"), rows)


def table(arguments: argparse.Namespace) -> str:
    """Write what the options ask for. Raises ClaimError and ReportError."""
    studies = read_catalogue(arguments.catalogue)
    if arguments.list:
        if arguments.reports or arguments.results or arguments.study or arguments.format != "markdown":
            raise ClaimError("--list takes no REPORT, no --study, no --results and no other format")
        return listed(studies)
    if arguments.results:
        if arguments.reports or arguments.study or arguments.format != "markdown":
            raise ClaimError("--results takes no REPORT, no --study and no other format")
        return results_page(studies, arguments.program)
    if not arguments.reports:
        raise ClaimError("no REPORT is given; --results reads the shipped samples")
    for path in arguments.reports:
        path.open("rb").close()
    if arguments.study:
        named = [study_named(studies, name) for name in arguments.study.split(",")]
        read = [(one, *read_for(one, arguments.reports, arguments.program)) for one in named]
        decided = [(study, lines) for _, study, lines, _ in read]
    else:
        decided = _decided(studies, arguments.reports, arguments.program)
    return WRITERS[arguments.format](decided)


def run(arguments: argparse.Namespace) -> None:
    text = table(arguments)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


def main() -> int:
    arguments = options().parse_args()
    return exit_code("scripts/claims", lambda: run(arguments))


if __name__ == "__main__":
    sys.exit(main())
