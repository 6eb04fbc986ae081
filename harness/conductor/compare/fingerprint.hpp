// Which machine a report came from, as a short key: for baselines and calibrations.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

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

}  // namespace assay
