// Keras's imdb.npz: a zip archive of x_train.npy, y_train.npy, x_test.npy and y_test.npy. x: pickled arrays
// of lists of word ranks (1 the most frequent), y: 0 (negative) or 1.
#include <cstring>
#include <map>
#include <string>

#include <fmt/format.h>

#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/npy_labels.hpp"
#include "harness/conductor/data/pickled_lists.hpp"
#include "harness/conductor/data/reviews.hpp"
#include "harness/conductor/data/text_tokens.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/zip_file.hpp"

namespace assay {
namespace {

using Members = std::map<std::string, std::vector<std::byte>>;

const std::vector<std::byte>& member(const Members& members, const std::string& name,
                                     const std::filesystem::path& path) {
  const auto found = members.find(name);
  if (found == members.end()) throw IoError("imdb", path, fmt::format("has no member '{}'", name));
  return found->second;
}

std::vector<std::vector<std::int32_t>> read_texts(std::span<const std::byte> bytes,
                                                  const std::filesystem::path& path) {
  const NpyHeader header = parse_npy_header(bytes, path);
  if (header.descr != "|O" || header.shape.size() != 1)
    throw IoError("imdb", path,
                  fmt::format("holds '{}' {}, wanted objects '|O' (N): one list of words for each text",
                              header.descr.substr(0, 40), to_string(header.shape)));
  auto texts = read_pickled_lists(bytes.subspan(header.offset), path);
  if (static_cast<std::int64_t>(texts.size()) != header.shape[0])
    throw IoError("imdb", path,
                  fmt::format("holds {} texts, its header says {}", texts.size(), header.shape[0]));
  return texts;
}

LoadedArrays read_half(const Members& members, const std::string& half, const std::filesystem::path& archive,
                       std::int64_t samples) {
  const std::string x = "x_" + half + ".npy", y = "y_" + half + ".npy";
  const auto texts = read_texts(member(members, x, archive), archive / x);
  LoadedArrays arrays;
  arrays.labels = read_npy_labels(member(members, y, archive), archive / y);
  if (static_cast<std::int64_t>(texts.size()) != samples || texts.size() != arrays.labels.size())
    throw IoError("imdb", archive,
                  fmt::format("has {} texts and {} labels to {}, wanted {}", texts.size(),
                              arrays.labels.size(), half, samples));
  for (std::size_t i = 0; i < arrays.labels.size(); ++i)
    if (arrays.labels[i] != 0 && arrays.labels[i] != 1)
      throw IoError("imdb", archive / y, fmt::format("label {} is {}: 0 or 1", i, arrays.labels[i]));
  std::vector<std::int32_t> tokens(texts.size() * token_length);
  for (std::size_t i = 0; i < texts.size(); ++i)
    write_tokens(texts[i], std::span(tokens).subspan(i * token_length, token_length));
  arrays.set_inputs<std::int32_t>({DType::i32, {samples, token_length}}, tokens);
  return arrays;
}

class ImdbFormat : public DatasetFormat {
 public:
  std::string_view name() const override { return "imdb.npz"; }
  std::string_view wanted() const override { return "imdb.npz"; }

  std::vector<std::filesystem::path> find(const std::filesystem::path& folder) const override {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(folder / "imdb.npz", ignored)) return {};
    return {folder / "imdb.npz"};
  }

  LoadedDataset read(const Dataset& dataset, std::span<const std::filesystem::path> files) const override {
    const MappedFile file(files[0]);
    const Members members = read_zip(file.bytes(), files[0]);
    return reviews(read_half(members, "train", files[0], dataset.train),
                   read_half(members, "test", files[0], dataset.validation + dataset.test));
  }
};

}  // namespace

const DatasetFormat& imdb_format() {
  static const ImdbFormat format;
  return format;
}

}  // namespace assay
