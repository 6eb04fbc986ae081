// Which machine a report came from, as a short key for baselines and calibrations, and whether two reports come
// from machines and libraries that may be compared.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/report/report.hpp"

namespace assay {

// Twelve hexadecimal digits of what times depend on and stays: processor, architecture, how many logical CPUs
// may be used, the container's share of them, and the models of the GPUs. Never a host name, a frequency or
// an uptime: they split one machine into many. Nothing where the processor is not known: two unknown machines
// are not one.
std::optional<std::string> machine_fingerprint(const nlohmann::json& environment);

// What a JSON document holds at a JSON pointer; null where there is nothing.
nlohmann::json field_at(const nlohmann::json& document, const char* pointer);

// "12 CPUs of an Intel(R) Xeon(R) ...": for a person.
std::string machine_text(const nlohmann::json& environment);

struct EnvironmentDifference {
  std::string what;  // "cpu.model", "onednn: oneDNN"
  std::string base, current;
  bool hard = false;  // the times are not comparable; otherwise a warning
};

// Hard: the models of CPU and GPU, the processors that may be used, the version of a backend or of a library
// that a cell of both reports loaded, the fork style, and the GPUs' driver where a cell of both ran on cuda. What neither
// report says is equal; what one of them does not say is "not known" and differs from anything. Soft: kernel,
// governor, and whether the build was dirty. Threads and precision are axes: cells that differ in them have
// different ids and are never paired.
std::vector<EnvironmentDifference> environment_differences(const Report& base, const Report& current);

// The same as values, by name: the hard fields of the machine, and the versions of backends and libraries; besides the
// commit of the program and whether its sources had changes. What the report does not say is "not known" of the machine,
// and left out of the rest.
std::map<std::string, std::string> identity_of(const Report& report);

// Of the machines alone, from what measure/environment says.
std::vector<EnvironmentDifference> machine_differences(const nlohmann::json& base,
                                                       const nlohmann::json& current);
// The fields that machine_differences() looks at, as JSON pointers.
std::vector<std::string> compared_fields();

}  // namespace assay
