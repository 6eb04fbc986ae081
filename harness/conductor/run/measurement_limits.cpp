#include "harness/conductor/run/measurement_parts.hpp"

namespace assay {

void Measurement::Parts::measure_rooflines(const std::vector<PlannedFork>& forks) {
  for (const PlannedFork& fork : forks) {
    const Cell& cell = cells_[fork.cell];
    const bool asked = settings_.roofline == "true" ||
                       (settings_.roofline == "auto" && cell.has_roofline() && !settings_.quick);
    if (stopped()) return;
    if (asked && wanted(fork) && !rooflines_.measured(cell.axes) && cell.axes.ranks() == 1)
      rooflines_.measure(cell.axes);
  }
  draw_rooflines();
}

void Measurement::Parts::draw_rooflines() {
  for (std::size_t i = 0; i < cells_.size(); ++i)
    if (!written_.is_elsewhere(i)) rooflines_.apply(report().cells[i].axes, report().cells[i].work);
  rooflines_.write(written_.this_machine());
}

void Measurement::Parts::hold_to_rooflines(const Cell& cell, const CellReport& row, Fork& fork) {
  constexpr int attempts = 3;
  if (fork.status != Status::ok) return;
  if (!cell.has_roofline() && cell.axes.ranks() == 1 && !rooflines_.measured(cell.axes) &&
      may_be_beyond_peak(cell.axes, row.work, least_step(fork))) {
    rooflines_.know_peak(cell.axes, written_.this_machine());
    draw_rooflines();
  }
  if (!rooflines_.measured(cell.axes)) return;
  const double input_bytes =
      cell.has_roofline() ? static_cast<double>(sizeof(float)) *
                                static_cast<double>(input_elements(cell.program->graph(cell.axes.task)))
                          : 0;
  std::string reason;
  for (int attempt = 0; attempt <= attempts && !stopped(); ++attempt) {
    reason =
        beyond_roofline(cell.axes, row.work, input_bytes, least_step(fork), allowed_over_peak(*cell.program));
    if (reason.empty()) return;
    if (attempt == attempts) break;
    rooflines_.measure(cell.axes);
    rooflines_.keep_peak(cell.axes, written_.this_machine());
    draw_rooflines();
  }
  if (reason.empty()) return;
  if (rooflines_.is_limit(cell.axes))
    end_with(fork, ReasonCode::faster_than_machine, reason);
  else
    fork.warnings.push_back(
        "it was faster than the fastest matrix product, but other processes used the processors whenever that was "
        "measured, so it is not refused");
}

}  // namespace assay
