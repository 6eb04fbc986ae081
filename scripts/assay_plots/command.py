"""How scripts/plot and scripts/claims report an error."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from assay_plots.analysis import ReportError
from assay_plots.claims.catalogue import ClaimError


def exit_code(name: str, run: Callable[[], None]) -> int:
    """Run the command; print an error about its input or its files, and return 2."""
    # If it is inherited as ignored, every child seems to succeed.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        run()
    except (ReportError, ClaimError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{name}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0
