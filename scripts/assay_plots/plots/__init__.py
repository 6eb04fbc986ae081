"""The pictures in the order of the page. To add one: a module with a PLOT, and a line here."""

from assay_plots.figure import Plot
from assay_plots.plots import (
    accuracy,
    batch,
    convergence,
    epochs,
    equivalence,
    first_epoch,
    memory,
    noise,
    operators,
    tax,
    throughput,
    utilisation,
)

PLOTS: tuple[Plot, ...] = (
    throughput.PLOT,
    tax.PLOT,
    batch.PLOT,
    operators.PLOT,
    accuracy.PLOT,
    convergence.PLOT,
    epochs.PLOT,
    first_epoch.PLOT,
    memory.PLOT,
    utilisation.PLOT,
    noise.PLOT,
    equivalence.PLOT,
)
