#include "harness/conductor/run/shard.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/paths.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr int max_shards = 20'000;  // a run has at most that many cells

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

int array_number(const char* name, std::optional<int> fallback) {
  const std::string text = environment_text(name);
  if (const auto value = whole_number(text)) return *value;
  if (text.empty() && fallback) return *fallback;
  throw ConfigError(fmt::format(
      "[shard] got 'slurm', but {} is {}: this is not a task of a Slurm job array; submit with sbatch "
      "--array=1-N, or use --shard I/N",
      name, text.empty() ? "not set" : "'" + printable(text, 40) + "'"));
}

// A task that is submitted again by itself sees an array of one task, and the whole run in it.
Shard shard_of_array() {
  const int id = array_number("SLURM_ARRAY_TASK_ID", {});
  const int count = array_number("SLURM_ARRAY_TASK_COUNT", {});
  const int first = array_number("SLURM_ARRAY_TASK_MIN", 0),
            last = array_number("SLURM_ARRAY_TASK_MAX", first + count - 1);
  const int step = array_number("SLURM_ARRAY_TASK_STEP", 1);
  const bool range = step > 0 && id >= first && id <= last && (id - first) % step == 0 && count > 1 &&
                     (last - first) / step + 1 == count;
  if (!range)
    throw ConfigError(fmt::format(
        "[shard] got 'slurm', but task {} of an array of {} tasks from {} to {} does not say which part it is; "
        "submit all tasks at once, or use --shard I/N",
        id, count, first, last));
  return {.index = (id - first) / step + 1, .count = count};
}

}  // namespace

Shard parse_shard(std::string_view text) {
  if (text == "slurm") return shard_of_array();
  const std::size_t slash = text.find('/');
  if (slash != text.npos) {
    const auto index = whole_number(text.substr(0, slash)), count = whole_number(text.substr(slash + 1));
    if (index && count && *index >= 1 && *index <= *count && *count <= max_shards)
      return {.index = *index, .count = *count};
  }
  throw ConfigError(fmt::format("[shard] got '{}': must be I/N, such as 2/4 for the second of four, or slurm",
                                printable(text, 40)));
}

std::vector<int> shards_of(const std::vector<Cell>& cells, int count) {
  std::vector<std::string> order;
  std::map<std::string, std::size_t> sizes;
  for (const Cell& cell : cells)
    if (++sizes[cell.group()] == 1) order.push_back(cell.group());
  if (std::ssize(order) < count)
    throw ConfigError(fmt::format(
        "[shard] got {}, but the run has {}, and groups cannot be cut; use at most {}",
        plural(count, "shard"), plural(order.size(), "comparison group"), plural(order.size(), "shard")));
  std::vector<std::size_t> filled(static_cast<std::size_t>(count), 0);
  std::map<std::string, int> shard_of_group;
  for (const std::string& group : order) {
    const auto emptiest = std::min_element(filled.begin(), filled.end());
    *emptiest += sizes[group];
    shard_of_group[group] = static_cast<int>(emptiest - filled.begin()) + 1;
  }
  std::vector<int> shards;
  for (const Cell& cell : cells) shards.push_back(shard_of_group[cell.group()]);
  return shards;
}

void keep_shard(std::vector<Cell>& cells, const Shard& shard) {
  const std::vector<int> shards = shards_of(cells, shard.count);
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (shards[i] != shard.index)
      end_with(cells[i], ReasonCode::other_shard,
               fmt::format("belongs to shard {} of {}", shards[i], shard.count));
}

}  // namespace assay
