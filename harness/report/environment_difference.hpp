// The machine of a report, as a short key for baselines and calibrations, and whether two reports come from
// comparable machines and libraries.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/report/report.hpp"

namespace assay {

// Twelve hexadecimal digits of the stable properties that times depend on: processor, architecture, the
// number of logical CPUs that may be used, the container's share of them, and the models of the GPUs. Never a
// host name, a frequency or an uptime: they make one machine look like many. Nothing if the processor is
// unknown: two unknown machines are not the same one.
std::optional<std::string> machine_fingerprint(const nlohmann::json& environment);

// The machine that the cell ran on: the report's, or of a merged report the one that the cell names.
const nlohmann::json& machine_of(const Report& report, const CellReport& cell);
// All machines of the report: one, or those of a merged report.
std::vector<const nlohmann::json*> machines_of(const Report& report);
// The fingerprint that all machines of the report share; nothing if they differ or one is unknown.
std::optional<std::string> shared_fingerprint(const Report& report);

// The value in a JSON document at a JSON pointer; null if there is none.
nlohmann::json field_at(const nlohmann::json& document, const char* pointer);

// "12 CPUs of an Intel(R) Xeon(R) ...": for people.
std::string machine_text(const nlohmann::json& environment);

struct EnvironmentDifference {
  std::string what;  // "cpu.model", "onednn: oneDNN"
  std::string base, current;
  bool hard = false;  // true: the times are not comparable; false: a warning
  bool operator==(const EnvironmentDifference&) const = default;
};

// Hard: the models of CPU and GPU, the processors that may be used, the version of a backend or of a library
// that a cell of both reports loaded, the fork style, and the GPUs' driver if a cell of both ran on cuda. A
// value that is missing in both reports is equal; one that is missing in one report is "not known" and
// differs. For a merged report the machines of every two cells with the same id are compared. Soft: kernel, governor, and whether the build was dirty. Threads and precision are axes: cells
// that differ in them have different ids and are never paired.
std::vector<EnvironmentDifference> environment_differences(const Report& base, const Report& current);

// The same as values, by name: the hard fields of the machine, the versions of backends and libraries, the
// commit of the program, and whether its sources had changes. Missing fields of the machine are "not known";
// other missing values are left out.
std::map<std::string, std::string> identity_of(const Report& report);

// Differences of the machines only, from the values of machine/environment.
std::vector<EnvironmentDifference> machine_differences(const nlohmann::json& base,
                                                       const nlohmann::json& current);
// The fields that machine_differences() looks at, as JSON pointers.
std::vector<std::string> compared_fields();

}  // namespace assay
