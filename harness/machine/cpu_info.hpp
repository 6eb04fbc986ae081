// Model, topology, caches and clocks of the processor.
#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

namespace assay {

// The object "cpu" of environment().
nlohmann::json cpu_info(const std::filesystem::path& root);

}  // namespace assay
