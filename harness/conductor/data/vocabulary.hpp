// Words ranked by frequency.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace assay {

class Vocabulary {
 public:
  void add(std::span<const std::string_view> words);
  // Call it after all words were added. Rank 1 is the most frequent; equally frequent words are ordered by
  // their bytes.
  void rank();
  // A word that was never added gets 2^30, which is above all other ranks. Precondition: rank() was called.
  std::vector<std::int32_t> ranks_of(std::span<const std::string_view> words) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> words_;  // counts, then ranks
};

}  // namespace assay
