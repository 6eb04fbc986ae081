#include "harness/machine/memory.hpp"

#include <algorithm>

#include "harness/machine/environment.hpp"
#include "harness/machine/system_files.hpp"

namespace assay {

std::optional<std::int64_t> available_memory(const std::filesystem::path& root) {
  std::optional<std::int64_t> available;
  const auto tighten = [&](std::int64_t bytes) { available = std::min(available.value_or(bytes), bytes); };
  if (const auto text = field_of(file_text(root / "proc/meminfo").value_or(""), "MemAvailable"))
    if (const auto kibibytes = size_of(*text)) tighten(*kibibytes << 10);
  if (const auto limits = control_group_limits(root); limits.memory_limit) tighten(*limits.memory_limit);
  return available;
}

}  // namespace assay
