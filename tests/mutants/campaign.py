"""Shared by both campaigns: the path of the tree, and the options for what runs and how many at a time."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def parser_of(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--side-by-side", type=int, default=2, metavar="N", help="runs at a time (default: 2)"
    )
    program = os.environ.get("ASSAY") or ROOT / "build/release/assay"
    parser.add_argument("--assay", type=Path, default=Path(program))
    return parser


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line; the program must be there."""
    given = parser.parse_args()
    if not given.assay.exists():
        parser.error(f"{given.assay} is missing: build it, or name another program with --assay")
    return given
