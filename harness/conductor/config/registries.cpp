#include "harness/conductor/config/registries.hpp"

namespace assay {
namespace {

void add(WorkloadRegistry& workloads, const OptionValues& values) {
  for (const std::string& name : list_of(values, "workload"))
    if (WorkloadRegistry::is_folder(name)) workloads.add_folder(name);
}

}  // namespace

void add_named_networks(WorkloadRegistry& workloads, const RunConfig& config) {
  for (const ConfigRow& row : config.rows) {
    add(workloads, row_values(config, row));
    for (const ConfigPublished& published : row.published) add(workloads, published.to);
  }
}

}  // namespace assay
