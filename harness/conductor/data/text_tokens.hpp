// From words to the rows of tokens that a network is fed, as Keras's IMDB does it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// The tokens of keras.datasets.imdb.load_data(num_words=5000) and pad_sequences(maxlen=500):
// 0 pads in front, 1 begins each text, 2 stands for a word that is not among the most frequent, and the word
// of rank r (1 the most frequent) is r + 3, so that 3 is never used and ranks to 4996 are known.
constexpr std::int32_t token_padding = 0, token_start = 1, token_unknown = 2, token_first_word = 3;
constexpr std::int64_t token_vocabulary = 5000;
constexpr std::int64_t token_length = 500;

// Writes token_start and the words of `ranks` into `row`. A text that is too long loses its beginning, the
// start with it; one that is short is padded in front. An empty one is padding and the start.
void write_tokens(std::span<const std::int32_t> ranks, std::span<std::int32_t> row);

// The words of a text: longest runs of the letters a-z, digits, apostrophes and bytes above 127 (so of other
// scripts, too), with A-Z made small. "<br />" and everything else parts words. Views into `text`, which is
// changed.
std::vector<std::string_view> split_words(std::string& text);

// Where the first byte lies that is no UTF-8 (RFC 3629); std::string_view::npos when there is none.
std::size_t find_bad_utf8(std::string_view text);

}  // namespace assay
