// Cells of a plan, for tests that run none of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/conductor/config/cell.hpp"

namespace assay {

// For each workload a number of backends, which are compared with each other: one group.
inline std::vector<Cell> planned_cells(const std::vector<std::pair<std::string, int>>& workloads) {
  std::vector<Cell> cells;
  for (const auto& [workload, count] : workloads)
    for (int backend = 0; backend < count; ++backend) {
      Cell cell;
      cell.axes.workload = workload;
      cell.axes.backend = "backend" + std::to_string(backend);
      cell.axes.mode = "graph";
      cell.axes.batch = 32;
      cell.id = cell_id(cell.axes);
      cells.push_back(cell);
    }
  return cells;
}

}  // namespace assay
