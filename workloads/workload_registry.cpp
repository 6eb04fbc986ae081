#include "workloads/workload_registry.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/text.hpp"

namespace assay {

WorkloadRegistry::WorkloadRegistry() : networks_(all_workloads().begin(), all_workloads().end()) {}

const Workload& WorkloadRegistry::add(Workload network) {
  if (network.name.empty() || is_op_workload(network.name))
    throw GraphError(fmt::format("'{}' is not a name of a network: it is empty, or begins with op/",
                                 network.name.substr(0, 80)));
  if (find_network(network.name))
    throw GraphError(fmt::format("there is a workload '{}' already", network.name.substr(0, 80)));
  return networks_.emplace_back(std::move(network));
}

const Workload* WorkloadRegistry::find_network(std::string_view name) const {
  const auto found = std::ranges::find(networks_, name, &Workload::name);
  return found == networks_.end() ? nullptr : &*found;
}

const Workload& WorkloadRegistry::network(std::string_view name) const {
  if (const Workload* found = find_network(name)) return *found;
  std::vector<std::string> known;
  for (const Workload& workload : networks_) known.push_back(workload.name);
  throw GraphError(fmt::format("'{}' is not a workload{}", name.substr(0, 80), suggestion(name, known)));
}

}  // namespace assay
