// The means of gradients over the ranks. The reference trains with one rank, whose mean is its gradient.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/reference/body.hpp"

namespace assay::reference {
namespace {

std::vector<std::int64_t> elements_of(std::span<const TensorType> gradients) {
  std::vector<std::int64_t> elements;
  for (const TensorType& type : gradients) elements.push_back(type.elements());
  return elements;
}

template <typename T>
Body<T> start(const Context& context) {
  const std::vector<std::int64_t> elements = elements_of(context.inputs);
  std::int64_t total = 0;
  for (const std::int64_t n : elements) total += n;
  const auto pack = [elements](const Call<T>& call) {
    T* bucket = call.out(0);
    for (std::size_t i = 0; i < elements.size(); ++i) bucket = std::copy_n(call.in(i), elements[i], bucket);
  };
  return {pack, 0, {total * static_cast<std::int64_t>(sizeof(T))}};
}

template <typename T>
Body<T> wait(const Context& context) {
  return {[elements = elements_of(context.outputs)](const Call<T>& call) {
    const T* bucket = call.in(0);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      std::copy_n(bucket, elements[i], call.out(i));
      bucket += elements[i];
    }
  }};
}

}  // namespace

std::span<const OpEntry> all_reduce_ops() {
  static constexpr std::array entries{OpEntry{"all_reduce_start", start<float>, start<double>},
                                      OpEntry{"all_reduce_wait", wait<float>, wait<double>}};
  return entries;
}

}  // namespace assay::reference
