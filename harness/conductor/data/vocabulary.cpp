#include "harness/conductor/data/vocabulary.hpp"

#include <algorithm>

namespace assay {
namespace {

constexpr std::int32_t unknown_rank = 1 << 30;

}  // namespace

void Vocabulary::add(std::span<const std::string_view> words) {
  for (const std::string_view word : words) {
    auto found = words_.find(word);
    if (found == words_.end()) found = words_.emplace(word, 0).first;
    ++found->second;
  }
}

void Vocabulary::rank() {
  std::vector<std::pair<const std::string, std::int64_t>*> order;
  for (auto& entry : words_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second != b->second ? a->second > b->second : a->first < b->first;
  });
  std::int64_t next = 1;
  for (auto* entry : order) entry->second = next++;
}

std::vector<std::int32_t> Vocabulary::ranks_of(std::span<const std::string_view> words) const {
  std::vector<std::int32_t> ranks;
  for (const std::string_view word : words) {
    const auto found = words_.find(word);
    ranks.push_back(found == words_.end()
                        ? unknown_rank
                        : static_cast<std::int32_t>(std::min<std::int64_t>(found->second, unknown_rank)));
  }
  return ranks;
}

}  // namespace assay
