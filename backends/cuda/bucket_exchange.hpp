// The buckets in which the gradients of a program are exchanged, and what their exchange costs by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cuda/device.hpp"
#include "harness/engine/memory.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {

class BucketExchange final : public GradientExchange {
 public:
  // Borrows the device, whose ranks() is not null.
  explicit BucketExchange(Device& device) : device_(device) {}

  RankSums& ranks() const { return *device_.ranks(); }
  // Counts a bucket of this many floats as long as the result lives.
  std::shared_ptr<void> add(std::int64_t elements);
  // If not, kernels must neither start buckets nor wait for them.
  bool enabled() const { return enabled_; }

  std::int64_t bytes() const override;
  void set_enabled(bool enabled) override { enabled_ = enabled; }
  // Adds up zeros in buckets of the same sizes.
  void run() override;

 private:
  Device& device_;
  bool enabled_ = true;
  std::vector<std::int64_t> sizes_;
  std::vector<Storage> zeros_;  // made at the first run
};

}  // namespace assay::cuda
