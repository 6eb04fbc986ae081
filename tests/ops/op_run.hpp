// One cell of the operator suite in this process, ready to be timed by any engine: what a worker does up to
// its first block.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/worker/backend.hpp"
#include "harness/worker/supply.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {

// Every cell of `assay run --workload op/* --backend NAME --mode graph --cache warm,cold` that can be: over
// the sweep of each op, forwards, and backwards where there is a gradient. Their backend lives for the whole
// program.
std::vector<Cell> op_suite(const std::string& backend);

class OpRun {
 public:
  // Writes the cell folder, compiles and stages every set of operands. Throws Unsupported with the reason.
  explicit OpRun(const Cell& cell);

  // `steps` steps over the sets in turn, and drained: what one block does.
  void steps(std::int64_t steps);

  // Seconds of each timed block that the supply saw, once it has said that it is done.
  std::vector<double> timed_blocks() const;

  const std::string& id() const { return id_; }
  Executable& executable() { return *executable_; }
  Supply& supply() { return supply_; }

 private:
  std::string id_;
  TemporaryFolder folder_;
  std::unique_ptr<Executable> executable_;
  Supply supply_;
  std::int64_t sets_ = 1, done_ = 0;
};

}  // namespace assay
