// Converts words to the rows of tokens for a network, like Keras's IMDB.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// The tokens of keras.datasets.imdb.load_data(num_words=5000) and pad_sequences(maxlen=500): 0 pads at the
// front, 1 begins each text, 2 replaces a word that is not among the most frequent, and the word of rank r (1
// is the most frequent) is r + 3. So 3 is never used, and ranks up to 4996 are known.
constexpr std::int32_t token_padding = 0, token_start = 1, token_unknown = 2, token_first_word = 3;
constexpr std::int64_t token_vocabulary = 5000;
constexpr std::int64_t token_length = 500;

// Writes token_start and the words of `ranks` into `row`. A text that is too long loses its beginning,
// including token_start; a short one is padded at the front. An empty text becomes padding and token_start.
void write_tokens(std::span<const std::int32_t> ranks, std::span<std::int32_t> row);

// The words of a text: longest runs of the letters a-z, digits, apostrophes and bytes above 127 (so also of
// other scripts); A-Z become lower case. "<br />" and all other characters separate words. The results are
// views into `text`, which is changed.
std::vector<std::string_view> split_words(std::string& text);

// The text of a file, as Python's text mode reads it: UTF-8 without a mark at its beginning, and with "\n" for
// "\r\n" and "\r". Throws IoError, led by `format`, with the line of a byte that is not UTF-8, or if the file is
// in UTF-16 or UTF-32, a pointer of Git LFS, or larger than `limit` bytes.
std::string read_utf8(std::string_view format, const std::filesystem::path& file, std::uint64_t limit);

}  // namespace assay
