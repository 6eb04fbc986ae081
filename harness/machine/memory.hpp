// How much memory is left on this machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace assay {

// Bytes that a program can take without swapping (MemAvailable), at most the memory limit of its control group; nothing
// if the system reports neither. Reads files below `root`.
std::optional<std::int64_t> available_memory(const std::filesystem::path& root = "/");

}  // namespace assay
