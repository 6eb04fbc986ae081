#include "workloads/registry.hpp"

#include <array>

#include "workloads/workload_registry.hpp"

namespace assay {

std::span<const Workload> all_workloads() {
#define ASSAY_CALL(name) name(),
  static const std::array workloads{ASSAY_WORKLOADS(ASSAY_CALL)};
#undef ASSAY_CALL
  return workloads;
}

const Workload& find_workload(std::string_view name) {
  static const WorkloadRegistry built_in;
  return built_in.network(name);
}

}  // namespace assay
