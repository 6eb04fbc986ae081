// The kernel backend that a program is linked with. Its users are compiled once and linked with each of
// them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/engine/kernel_library.hpp"
#include "harness/worker/backend.hpp"

namespace assay::under_test {

// As in backends/<name>.
extern const std::string backend;

// Its modes that plan a whole graph ahead: each has its own lowerings.
inline std::vector<std::string> planned_modes() {
  if (backend == "onednn") return {"graph", "primitives"};
  return {"graph"};
}
inline std::vector<std::string> all_modes() {
  std::vector<std::string> modes = planned_modes();
  modes.emplace_back("eager");
  return modes;
}

// Throws Unavailable with the reason if its device is missing.
std::unique_ptr<KernelLibrary> make_kernel_library(const CompileOptions& options);

}  // namespace assay::under_test
