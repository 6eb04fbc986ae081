#include <fmt/format.h>

#include <array>

#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "workloads/registry.hpp"

namespace assay {

std::span<const Workload> all_workloads() {
#define ASSAY_CALL(name) name(),
  static const std::array workloads{ASSAY_WORKLOADS(ASSAY_CALL)};
#undef ASSAY_CALL
  return workloads;
}

const Workload& find_workload(std::string_view name) {
  std::vector<std::string> known;
  for (const Workload& workload : all_workloads()) {
    if (workload.name == name) return workload;
    known.push_back(workload.name);
  }
  throw GraphError(fmt::format("'{}' is not a workload{}", name.substr(0, 80), suggestion(name, known)));
}

}  // namespace assay
