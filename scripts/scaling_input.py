"""The input of the scripts that model scaling: numbers on their command lines, and a workload's gradients."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

from assay_plots.analysis import ReportError

BYTES_OF_A_PARAMETER = 4  # gradients are exchanged in fp32


def number(low: float, high: float = math.inf, above: bool = False) -> Callable[[str], float]:
    """Read a finite number from `low` to `high`, or one above `low`."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and low <= value <= high) or (above and value == low):
            limits = f"above {low:g}" if above else f"{low:g} or more"
            limits = f"{low:g} to {high:g}" if high < math.inf else limits
            raise argparse.ArgumentTypeError(f"got {text!r}: must be a number, {limits}")
        return value

    return parse


def whole(low: int, high: int) -> Callable[[str], int]:
    """Read a whole number from `low` to `high`."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"got {text!r}: must be a whole number, {low} to {high}")
        return int(text)

    return parse


def gradient_bytes(workload: str, program: Path) -> int:
    """Raises ReportError if the program does not know the workload, or if it has no parameters."""
    done = subprocess.run(
        [str(program), "inspect", workload, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ReportError(done.stderr.strip().removeprefix("assay: "))
    parameters = int(json.loads(done.stdout)["parameters"])
    if parameters == 0:
        raise ReportError(f"{workload} has no parameters, so ranks would exchange nothing")
    return BYTES_OF_A_PARAMETER * parameters
