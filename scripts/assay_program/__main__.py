"""python -m assay_program: the same as assay."""

from __future__ import annotations

from assay_program import main

main()
