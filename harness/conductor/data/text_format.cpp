// One text file, by characters: every character that occurs is a class, in the order of the code points. The
// first nine tenths are the split "train", the rest is "validation" and also "test". Each is cut into sequences
// that follow each other, and the label of a position is the character after it. This is nanoGPT's
// shakespeare_char, but there the sequences of a batch begin anywhere.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/text_tokens.hpp"
#include "harness/core/domain.hpp"
#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/memory.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t max_corpus_bytes = std::uint64_t{256} << 20;
// While it is read: the text, its code points as numbers, and inputs and labels of all sequences, twice.
constexpr std::uint64_t bytes_of_character = 1 + 4 + 2 * 8;
constexpr std::size_t held_out_one_in = 10;

// The code points of valid UTF-8.
std::vector<std::int32_t> characters_of(std::string_view text) {
  std::vector<std::int32_t> characters;
  characters.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues = (byte & 0xc0) == 0x80;
    if (continues) {
      characters.back() = characters.back() * 64 + (byte & 0x3f);
    } else {
      const int bits = byte < 0x80 ? 7 : byte < 0xe0 ? 5 : byte < 0xf0 ? 4 : 3;
      characters.push_back(byte & ((1 << bits) - 1));
    }
  }
  return characters;
}

void check_corpus_size(const fs::path& file) {
  reject_larger("text", file, max_corpus_bytes);
  std::error_code ignored;
  const std::uintmax_t bytes = fs::file_size(file, ignored);
  const auto available = available_memory();
  if (!ignored && available && bytes > static_cast<std::uint64_t>(*available) / bytes_of_character)
    throw IoError(
        "text", file,
        fmt::format("has {} bytes: reading it takes {} bytes for each, and this machine has {} available",
                    bytes, bytes_of_character, *available));
}

std::vector<std::int32_t> read_characters(const fs::path& file) {
  check_corpus_size(file);
  return characters_of(read_utf8("text", file, max_corpus_bytes));
}

// The different characters, ascending.
std::vector<std::int32_t> vocabulary_of(const std::vector<std::int32_t>& characters, const fs::path& file) {
  const std::set<std::int32_t> different(characters.begin(), characters.end());
  if (different.size() < 2)
    throw IoError("text", file,
                  fmt::format("has {} different characters; at least 2 are needed", different.size()));
  if (std::ssize(different) > max_classes)
    throw IoError("text", file,
                  fmt::format("has {} different characters, and at most {} are supported", different.size(),
                              max_classes));
  return {different.begin(), different.end()};
}

LoadedArrays sequences_of(std::span<const std::int32_t> tokens, std::int64_t length, const fs::path& file) {
  const auto count = (static_cast<std::int64_t>(tokens.size()) - 1) / length;
  if (count < 1)
    throw IoError("text", file,
                  fmt::format("is too short: a tenth of it has {}, fewer than a sequence of {} and "
                              "the next one; use a longer text or a shorter --sequence-length",
                              plural(tokens.size(), "character"), length));
  const auto kept = static_cast<std::size_t>(count * length);
  LoadedArrays arrays;
  arrays.set_inputs({DType::i32, {count, length}}, tokens.first(kept));
  arrays.labels.assign(tokens.begin() + 1, tokens.begin() + 1 + static_cast<std::ptrdiff_t>(kept));
  arrays.positions = length;
  return arrays;
}

class TextFormat : public DatasetFormat {
 public:
  std::string_view name() const override { return "text"; }
  std::string_view wanted() const override { return "input.txt"; }
  std::vector<NamedFile> named() const override { return {{"input.txt", ""}}; }
  bool any_sequence_length() const override { return true; }

  std::vector<fs::path> find(const fs::path& folder) const override {
    std::error_code ignored;
    if (fs::is_regular_file(folder / "input.txt", ignored)) return {folder / "input.txt"};
    return {};
  }

  SampleKind describe(const DatasetPlace& place) const override {
    const fs::path file = place.file(0, "input.txt");
    return {{}, static_cast<std::int64_t>(vocabulary_of(read_characters(file), file).size())};
  }

  void check_sizes(const Dataset&, std::span<const fs::path> files) const override {
    check_corpus_size(files[0]);
  }

  LoadedDataset read(const Dataset& dataset, std::span<const fs::path> files) const override {
    std::vector<std::int32_t> tokens = read_characters(files[0]);
    const std::vector<std::int32_t> vocabulary = vocabulary_of(tokens, files[0]);
    for (std::int32_t& token : tokens)
      token = static_cast<std::int32_t>(std::ranges::lower_bound(vocabulary, token) - vocabulary.begin());

    const std::int64_t length = element_count(dataset.sample_shape);
    const std::span<const std::int32_t> all(tokens);
    const std::size_t cut = tokens.size() - (tokens.size() + held_out_one_in - 1) / held_out_one_in;
    LoadedDataset loaded;
    loaded.arrays["train"] = sequences_of(all.first(cut), length, files[0]);
    loaded.arrays["validation"] = sequences_of(all.subspan(cut), length, files[0]);
    loaded.splits["train"] = {"train", 0, loaded.arrays["train"].samples()};
    loaded.splits["validation"] = {"validation", 0, loaded.arrays["validation"].samples()};
    loaded.splits["test"] = loaded.splits["validation"];
    loaded.sample_shape = dataset.sample_shape;
    loaded.classes = loaded.vocabulary = static_cast<std::int64_t>(vocabulary.size());
    return loaded;
  }
};

}  // namespace

const DatasetFormat& text_format() {
  static const TextFormat format;
  return format;
}

}  // namespace assay
