#include "harness/conductor/data/format.hpp"

#include <stdexcept>

namespace assay {

SampleKind DatasetFormat::describe(const std::filesystem::path&) const {
  throw std::logic_error("[dataset] the samples of this format are known beforehand");
}

void LoadedDataset::set_splits(LoadedArrays train, std::int64_t validation, LoadedArrays test) {
  const auto all = static_cast<std::int64_t>(train.labels.size());
  splits["train"] = {"train", 0, all - validation};
  splits["validation"] = {"train", all - validation, validation};
  splits["test"] = {"test", 0, static_cast<std::int64_t>(test.labels.size())};
  arrays["train"] = std::move(train);
  arrays["test"] = std::move(test);
}

}  // namespace assay
