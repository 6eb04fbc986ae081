#include "harness/conductor/data/reviews.hpp"

#include "harness/conductor/data/text_tokens.hpp"

namespace assay {
namespace {

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

}  // namespace

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

}  // namespace assay
