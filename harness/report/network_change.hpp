// Imported networks in reports. Their workloads are called NAME@DIGEST: "resnet50@1f3a9c2e".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// NAME; empty for a built-in workload.
std::string_view imported_name(std::string_view workload);

// One network in two forms: it was imported again, or its folder replaced.
struct NetworkChange {
  std::string before;  // as the earlier report has it
  std::string now;
};
// "resnet50@1f3a9c2e became resnet50@5b0e77aa: its network.json was changed"
std::string to_string(const NetworkChange& change);

std::vector<std::string> workloads_of(std::span<const CellReport> cells);
// The first one of `now` that has another digest in `before`, and is not there as it is now.
std::optional<NetworkChange> changed_network(const std::vector<std::string>& before,
                                             const std::vector<std::string>& now);

}  // namespace assay
