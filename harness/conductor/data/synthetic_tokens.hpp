// Sequences of words made here, in the shape of a set of reviews.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay {

struct SyntheticTokensSpec {
  bool learnable = true;    // otherwise labels have nothing to do with the words
  std::int64_t length = 0;  // of a sequence, padding included
  std::int64_t vocabulary = 0;
  std::int64_t classes = 0;
  std::int64_t samples = 0;
};

struct SyntheticTokens {
  std::vector<std::int32_t> inputs;  // (samples, length)
  std::vector<std::int32_t>
      labels;  // (samples); every class as often as any other, give or take one, in shuffled order
};

// The same for the same spec and stream, on every machine. As in IMDB by Keras: 0 is padding, in front; 1
// begins each text; 2 is not used; words are 3 and up. A text has a quarter of the length or more. Each class
// has an eighth of its share of the words for its own; where it can be learnt one word in four is of some
// class's own, four in five of these of the label's class. All other words belong to nobody. Throws
// DataError where the vocabulary is too small for that.
SyntheticTokens make_synthetic_tokens(const SyntheticTokensSpec& spec, const std::string& stream);

}  // namespace assay
