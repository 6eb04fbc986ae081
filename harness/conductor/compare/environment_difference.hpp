// Whether two reports come from machines and libraries that may be compared.
#pragma once

#include <string>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

struct EnvironmentDifference {
  std::string what;  // "cpu.model", "onednn: oneDNN"
  std::string base, current;
  bool hard = false;  // the times are not comparable; otherwise a warning
};

// Hard: the models of CPU and GPU, the processors that may be used, the version of a backend or of a library
// that a cell of both reports loaded, and the GPUs' driver where a cell of both ran on cuda. What neither
// report says is equal; what one of them does not say is "not known" and differs from anything. Soft: kernel,
// governor, and whether the build was dirty. Threads and precision are axes: cells that differ in them have
// different ids and are never paired.
std::vector<EnvironmentDifference> environment_differences(const Report& base, const Report& current);

// Of the machines alone, from what measure/environment says.
std::vector<EnvironmentDifference> machine_differences(const nlohmann::json& base,
                                                       const nlohmann::json& current);
// The fields that machine_differences() looks at, as JSON pointers.
std::vector<std::string> compared_fields();

}  // namespace assay
