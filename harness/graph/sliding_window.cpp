#include "harness/graph/sliding_window.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "harness/core/error.hpp"

namespace assay {
namespace {

using Numbers = std::vector<std::int64_t>;

// `count` numbers, of a list or all of one number.
Numbers numbers(const Attributes& attributes, const char* name, std::size_t count) {
  const auto found = attributes.values().find(name);
  const auto* list = found == attributes.values().end() ? nullptr : std::get_if<Numbers>(&found->second);
  if (list == nullptr) return Numbers(count, attributes.get<std::int64_t>(name));
  const auto as_text = [&] { return fmt::format("[{}]", fmt::join(list->begin(), list->end(), ", ")); };
  if (list->size() != count) {
    throw GraphError(list->size() > 4
                         ? fmt::format("attribute '{}' has {} numbers; it must have {}, or be one", name,
                                       list->size(), count)
                         : fmt::format("attribute '{}' is {}; it must have {} numbers, or be one", name,
                                       as_text(), count));
  }
  if (std::ranges::all_of(*list, [&](std::int64_t number) { return number == list->front(); })) {
    throw GraphError(
        fmt::format("attribute '{}' is {}: write equal numbers as {}", name, as_text(), list->front()));
  }
  return *list;
}

[[noreturn]] void reject_default(const char* name, const char* value) {
  throw GraphError(fmt::format("attribute '{}' is {}, which is the same as none: leave it out", name, value));
}

}  // namespace

SlidingWindow sliding_window(const Attributes& attributes, std::int64_t kernel_rows,
                             std::int64_t kernel_columns) {
  const Numbers stride = numbers(attributes, "stride", 2), padding = numbers(attributes, "padding", 4);
  Numbers dilation{1, 1};
  if (attributes.has("dilation")) {
    dilation = numbers(attributes, "dilation", 2);
    if (dilation == Numbers{1, 1}) reject_default("dilation", "1");
  }
  return {{kernel_rows, stride[0], padding[0], padding[2], dilation[0]},
          {kernel_columns, stride[1], padding[1], padding[3], dilation[1]}};
}

SlidingWindow pool_window(const Attributes& attributes) {
  const Numbers kernel = numbers(attributes, "kernel", 2);
  return sliding_window(attributes, kernel[0], kernel[1]);
}

bool counts_padding(const Attributes& attributes) {
  if (!attributes.has("count_padding")) return true;
  if (attributes.get<bool>("count_padding")) reject_default("count_padding", "true");
  return false;
}

std::int64_t groups_of(const Attributes& attributes) {
  if (!attributes.has("groups")) return 1;
  const auto groups = attributes.get<std::int64_t>("groups");
  if (groups == 1) reject_default("groups", "1");
  return groups;
}

}  // namespace assay
