#include "harness/exam/staging.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

namespace assay {

void StagingBuffer::fill(Part& part, const HostTensor& from) {
  if (part.type != from.type) {
    part.bytes.reset(new (alignment) std::byte[from.bytes.size()]);
    part.type = from.type;
  }
  std::memcpy(part.bytes.get(), from.bytes.data(), from.bytes.size());
}

void StagingBuffer::spoil(Part& part) {
  const auto count = static_cast<std::size_t>(part.type.elements());
  if (part.type.dtype == DType::f32) {
    std::ranges::fill(std::span(reinterpret_cast<float*>(part.bytes.get()), count),
                      std::numeric_limits<float>::quiet_NaN());
    return;
  }
  // The largest token or label: one that is too large could end the process.
  const std::span values(reinterpret_cast<std::int32_t*>(part.bytes.get()), count);
  if (!values.empty()) std::ranges::fill(values, *std::ranges::max_element(values));
}

void StagingBuffer::fill(const FedBatch& batch) {
  fill(inputs_, batch.inputs);
  fill(labels_, batch.labels);
}

void StagingBuffer::spoil() {
  spoil(inputs_);
  spoil(labels_);
}

}  // namespace assay
