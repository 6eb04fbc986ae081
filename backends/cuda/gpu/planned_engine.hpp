// An engine of cuDNN that is chosen without a measurement, also for a GPU that is not here.
#pragma once

#include <cstdint>
#include <string>

namespace assay::cuda {

struct PlannedEngine {
  std::string engine = {};   // empty if cuDNN has none
  std::string missing = {};  // then the reason
  std::int64_t engines = 0;  // how many the heuristic names
  std::int64_t workspace_bytes = 0;
  bool is_generated = false;  // its code is compiled when it is built
  double seconds = 0;         // to ask the heuristic and to build it
};

}  // namespace assay::cuda
