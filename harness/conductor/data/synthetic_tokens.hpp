// Synthetic sequences of words in the shape of a set of reviews.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay {

struct SyntheticTokensSpec {
  bool learnable = true;    // otherwise labels are independent of the words
  std::int64_t length = 0;  // of a sequence, padding included
  std::int64_t vocabulary = 0;
  std::int64_t classes = 0;
  std::int64_t samples = 0;
  std::int64_t padding = -1;  // 0: a text is followed by padding; -1: padding is in front of it
};

struct SyntheticTokens {
  std::vector<std::int32_t> inputs;  // (samples, length)
  std::vector<std::int32_t>
      labels;  // (samples); all classes equally often (to within one), in shuffled order
};

// Equal for equal spec and stream, on every machine. As in Keras's IMDB: 0 is padding at the front; 1 begins
// each text; 2 is not used; words are 3 and up. A text has at least a quarter of the length. Each class owns
// an eighth of its share of the words. If learnable, one word in four is owned by a class, and four in five
// of these by the label's class. The other words belong to no class. Throws DataError if the vocabulary is
// too small for that.
SyntheticTokens make_synthetic_tokens(const SyntheticTokensSpec& spec, const std::string& stream);

// Sequences in which every position has a label: the next token. labels: (samples, length). `classes` and
// `padding` are not used.
//
// The rule, if learnable: each token has four successors of its own, and four in five times one of them follows
// it. Otherwise every token is as likely as any other. Throws DataError without two tokens.
SyntheticTokens make_synthetic_chains(const SyntheticTokensSpec& spec, const std::string& stream);

}  // namespace assay
