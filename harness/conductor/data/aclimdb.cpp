// aclImdb (Maas et al. 2011): train/neg, train/pos, test/neg and test/pos, one text per file.
#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/conductor/data/text_tokens.hpp"
#include "harness/conductor/data/vocabulary.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr const char* parts[] = {"train/neg", "train/pos", "test/neg", "test/pos"};
constexpr std::uint64_t max_text_bytes = 1 << 20;
constexpr std::uint64_t max_all_bytes = std::uint64_t{1} << 30;  // the published texts have 66 MB

fs::path home(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "aclImdb", ignored) ? folder / "aclImdb" : folder;
}

// The texts of one part, sorted by name, so that the order does not depend on the file system.
std::vector<fs::path> texts_in(const fs::path& part) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(part, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".txt") files.push_back(entry->path());
  if (error && error != std::errc::no_such_file_or_directory)
    throw IoError("aclimdb", part, "cannot be listed", error.value());
  std::sort(files.begin(), files.end());
  return files;
}

bool is_part(const fs::path& file, std::string_view part) {
  return (file.parent_path().parent_path().filename() / file.parent_path().filename()).string() == part;
}

std::string read_review(const fs::path& file) { return read_utf8("aclimdb", file, max_text_bytes); }

// The samples of `arrays` in another order.
LoadedArrays in_order(const LoadedArrays& arrays, std::span<const std::size_t> order) {
  LoadedArrays out{arrays.type, {}, {}};
  const std::size_t bytes = arrays.inputs.size() / arrays.labels.size();
  out.inputs.reserve(arrays.inputs.size());
  for (const std::size_t i : order) {
    const auto begin = arrays.inputs.begin() + static_cast<std::ptrdiff_t>(i * bytes);
    out.inputs.insert(out.inputs.end(), begin, begin + static_cast<std::ptrdiff_t>(bytes));
    out.labels.push_back(arrays.labels[i]);
  }
  return out;
}

// The publisher's training half is the split "train". The test half is ordered by class, so its samples
// 0, 2, 4 ... are "validation" and 1, 3, 5 ... are "test".
LoadedDataset reviews(LoadedArrays train, const LoadedArrays& held_out) {
  const std::size_t samples = held_out.labels.size();
  std::vector<std::size_t> order;
  for (const std::size_t first : {std::size_t{0}, std::size_t{1}})
    for (std::size_t i = first; i < samples; i += 2) order.push_back(i);
  LoadedDataset loaded;
  const auto validation = static_cast<std::int64_t>((samples + 1) / 2),
             all = static_cast<std::int64_t>(samples);
  loaded.splits["train"] = {"train", 0, static_cast<std::int64_t>(train.labels.size())};
  loaded.splits["validation"] = {"test", 0, validation};
  loaded.splits["test"] = {"test", validation, all - validation};
  loaded.arrays["train"] = std::move(train);
  loaded.arrays["test"] = in_order(held_out, order);
  loaded.sample_shape = {token_length};
  loaded.classes = 2;
  loaded.vocabulary = token_vocabulary;
  return loaded;
}

class AclImdbFormat : public DatasetFormat {
 public:
  std::string_view name() const override { return "aclImdb"; }
  std::string_view wanted() const override {
    return "train/neg, train/pos, test/neg and test/pos with texts *.txt, in the folder or in its subfolder aclImdb,";
  }

  bool here(const fs::path& folder) const override {
    std::error_code ignored;
    return std::all_of(std::begin(parts), std::end(parts),
                       [&](const char* part) { return fs::is_directory(home(folder) / part, ignored); });
  }

  std::vector<fs::path> find(const fs::path& folder) const override {
    std::vector<fs::path> files;
    for (const char* part : parts) {
      const std::vector<fs::path> some = texts_in(home(folder) / part);
      if (some.empty()) return {};
      files.insert(files.end(), some.begin(), some.end());
    }
    return files;
  }

  void check_sizes(const Dataset& dataset, std::span<const fs::path> files) const override {
    require_texts(files, parts[0], parts[1], dataset.train);
    require_texts(files, parts[2], parts[3], dataset.validation + dataset.test);
    std::uint64_t bytes = 0;
    for (const fs::path& file : files) {
      reject_larger("aclimdb", file, max_text_bytes);
      std::error_code ignored;
      if (const std::uintmax_t size = fs::file_size(file, ignored); !ignored) bytes += size;
    }
    if (bytes > max_all_bytes)
      throw IoError("aclimdb", folder_of(files),
                    fmt::format("has {} bytes of texts, and at most {} are read", bytes, max_all_bytes));
  }

  LoadedDataset read(const Dataset& dataset, std::span<const fs::path> files) const override {
    // All texts are only 66 MB. The vocabulary comes only from the training half.
    Vocabulary vocabulary;
    for (const fs::path& file : files) {
      if (!is_part(file, parts[0]) && !is_part(file, parts[1])) continue;
      std::string text = read_review(file);
      vocabulary.add(split_words(text));
    }
    vocabulary.rank();
    return reviews(read_half(files, parts[0], parts[1], vocabulary, dataset.train),
                   read_half(files, parts[2], parts[3], vocabulary, dataset.validation + dataset.test));
  }

 private:
  static fs::path folder_of(std::span<const fs::path> files) {
    return files.front().parent_path().parent_path().parent_path();
  }

  static void require_texts(std::span<const fs::path> files, std::string_view negative,
                            std::string_view positive, std::int64_t samples) {
    const auto found = std::ranges::count_if(
        files, [&](const fs::path& file) { return is_part(file, negative) || is_part(file, positive); });
    if (found != samples)
      throw IoError("aclimdb", folder_of(files),
                    fmt::format("has {} in {} and {}, but must have {}", plural(found, "text"), negative,
                                positive, samples));
  }

  static LoadedArrays read_half(std::span<const fs::path> files, std::string_view negative,
                                std::string_view positive, const Vocabulary& vocabulary,
                                std::int64_t samples) {
    LoadedArrays arrays;
    std::vector<std::int32_t> tokens;
    for (const fs::path& file : files) {
      const bool good = is_part(file, positive);
      if (!good && !is_part(file, negative)) continue;
      std::string text = read_review(file);
      const std::vector<std::int32_t> ranks = vocabulary.ranks_of(split_words(text));
      tokens.resize(tokens.size() + token_length);
      write_tokens(ranks, std::span(tokens).last(token_length));
      arrays.labels.push_back(good ? 1 : 0);
    }
    arrays.set_inputs<std::int32_t>({DType::i32, {samples, token_length}}, tokens);
    return arrays;
  }
};

}  // namespace

const DatasetFormat& aclimdb_format() {
  static const AclImdbFormat format;
  return format;
}

}  // namespace assay
