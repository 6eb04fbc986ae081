// Words by how often they occur.
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
  // Once all were added: rank 1 is the most frequent; of words that are equally frequent the one whose bytes
  // come first.
  void rank();
  // 2^30, which no list of frequent words reaches, for a word that was never added. After rank().
  std::vector<std::int32_t> ranks_of(std::span<const std::string_view> words) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> words_;  // counts, then ranks
};

}  // namespace assay
