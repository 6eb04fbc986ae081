// Forks that were recorded on a machine, to be replayed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay::simulation {

// One start of `assay run`: the rows of its report, each fork with its round, its flags and its timed blocks,
// and without the marks that follow from all forks of a round. Each round has each cell once, in the order of
// time.
struct Session {
  std::vector<CellReport> cells;
};

// Sessions with the same cells, made in one way by one build on one machine.
struct Recording {
  std::string name, kind;
  bool flags = false;  // whether the flags of forks were recorded
  std::vector<Session> sessions;

  std::size_t cells() const { return sessions.front().cells.size(); }
  int rounds() const;
  // Standard deviation of ln(time of a fork) over a whole session, in the median of sessions: of each cell.
  std::vector<double> spreads() const;
};

// Reads a file that scripts/lab/record-noise wrote. Throws JsonError.
std::vector<Recording> read_noise(const std::filesystem::path& file);

}  // namespace assay::simulation
