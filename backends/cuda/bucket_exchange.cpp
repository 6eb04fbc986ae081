#include "backends/cuda/bucket_exchange.hpp"

#include <algorithm>
#include <numeric>

namespace assay::cuda {
namespace {

constexpr auto float_bytes = static_cast<std::int64_t>(sizeof(float));

}  // namespace

std::shared_ptr<void> BucketExchange::add(std::int64_t elements) {
  sizes_.push_back(elements);
  return {this, [elements](BucketExchange* exchange) {
            exchange->sizes_.erase(std::ranges::find(exchange->sizes_, elements));
          }};
}

std::int64_t BucketExchange::bytes() const {
  return std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0}) * float_bytes;
}

void BucketExchange::run() {
  if (zeros_.empty()) {
    for (const std::int64_t size : sizes_) {
      zeros_.emplace_back(device_.memory(), size * float_bytes, "a bucket of zeros");
      zeros_.back().clear();
    }
  }
  for (const Storage& bucket : zeros_)
    ranks().start(static_cast<float*>(bucket.data()), bucket.bytes() / float_bytes);
  for (const Storage& bucket : zeros_) ranks().finish(static_cast<const float*>(bucket.data()));
  device_.synchronize();
}

}  // namespace assay::cuda
