#include "harness/machine/memory.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "harness/machine/environment.hpp"
#include "harness/machine/system_files.hpp"

namespace assay {

std::optional<std::int64_t> available_memory(const std::filesystem::path& root) {
  std::optional<std::int64_t> available;
  const auto tighten = [&](std::int64_t bytes) { available = std::min(available.value_or(bytes), bytes); };
  if (const auto text = field_of(file_text(root / "proc/meminfo").value_or(""), "MemAvailable"))
    if (const auto kibibytes = size_of(*text)) tighten(*kibibytes << 10);
  const nlohmann::json limits = control_group_limits(root);
  if (const nlohmann::json& limit = limits.at("memory_limit"); limit.is_number_integer())
    tighten(limit.get<std::int64_t>());
  return available;
}

}  // namespace assay
