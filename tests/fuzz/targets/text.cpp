// The text of a review: words, their ranks, and tokens.
#include <array>
#include <string>

#include "harness/conductor/data/text_tokens.hpp"
#include "harness/conductor/data/vocabulary.hpp"
#include "harness/core/text.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_text {
namespace {

const Registration here("text", [](Input input) {
  std::string text(text_of(input));
  if (find_bad_utf8(text) != std::string_view::npos) return;
  const auto words = split_words(text);
  Vocabulary vocabulary;
  vocabulary.add(words);
  vocabulary.rank();
  std::array<std::int32_t, 16> row{};
  write_tokens(vocabulary.ranks_of(words), row);
  for (const std::int32_t token : row)
    require(token >= 0 && token < token_vocabulary, "a token is one of the vocabulary");
});

}  // namespace
}  // namespace assay::fuzz::of_text
