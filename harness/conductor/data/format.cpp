#include "harness/conductor/data/format.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "harness/core/error.hpp"

namespace assay {

void reject_larger(std::string_view format, const std::filesystem::path& file, std::uint64_t max_bytes) {
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(file, error);
  if (!error && bytes > max_bytes)
    throw IoError(
        format, file,
        fmt::format("is too long: it has {} bytes, and a file of the set has at most {}", bytes, max_bytes));
}

void DatasetFormat::check_sizes(const Dataset&, std::span<const std::filesystem::path>) const {}

SampleKind DatasetFormat::describe(const DatasetPlace&) const {
  throw std::logic_error("[dataset] the samples of this format are known in advance");
}

void LoadedDataset::set_splits(LoadedArrays train, std::int64_t validation, LoadedArrays test) {
  const std::int64_t all = train.samples();
  splits["train"] = {"train", 0, all - validation};
  splits["validation"] = {"train", all - validation, validation};
  splits["test"] = {"test", 0, test.samples()};
  arrays["train"] = std::move(train);
  arrays["test"] = std::move(test);
}

}  // namespace assay
