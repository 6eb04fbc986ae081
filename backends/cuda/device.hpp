// The device that a library runs on: memory, a stream, the vendor's products. There are two implementations:
// gpu/ for a GPU, and host/, which runs the same kernels on the host for the tests.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/products.hpp"
#include "harness/engine/kernel_library.hpp"
#include "harness/engine/memory.hpp"

namespace assay::cuda {

class Calls;    // backends/cuda/primitives/calls.hpp
class Choices;  // backends/cuda/choices.hpp
class Nccl;     // backends/cuda/gpu/nccl.hpp

// Adds up gradients over the ranks of a cell, on a stream of its own: the device's stream goes on meanwhile. All ranks
// make the same calls in the same order.
class RankSums {
 public:
  virtual ~RankSums() = default;
  virtual int world() const = 0;
  // Enqueues: replaces the values by their sums over all ranks, once the device's stream has done what it was given
  // before. Nothing else may use the values until finish().
  virtual void start(float* values, std::int64_t count) = 0;
  // Enqueues: the device's stream goes on when the sums at this address are complete.
  virtual void finish(const float* values) = 0;
  // Rank 0's value, once all ranks have called this. Synchronises.
  virtual std::int64_t first(std::int64_t value) = 0;
};

struct DeviceOptions {
  double memory_fraction = 0;             // of the device's memory; 0: all of it
  std::int64_t memory_cap = 0;            // bytes; 0: no cap
  bool deterministic = false;             // only algorithms that give the same bits in each run
  std::shared_ptr<Choices> choices = {};  // null: of the device's own
  std::shared_ptr<Nccl> ranks = {};       // with which gradients are added up; null for one rank
};

// A piece of what is captured: what `enqueue` enqueues waits for the parts `needs`, which are before this one, and need not
// wait for others.
struct GraphPart {
  std::function<void()> enqueue;
  std::vector<std::size_t> needs = {};
};

// Used from one thread.
class Device {
 public:
  virtual ~Device() = default;
  virtual Memory& memory() = 0;
  virtual Stream stream() = 0;
  // Throw Unsupported: of a spec that is `bare`, for all that the vendor's library does not compute.
  virtual std::unique_ptr<Matmul> matmul(const MatmulSpec& spec) = 0;
  // Equal specs may share one object.
  virtual std::shared_ptr<Convolution> convolution(const ConvolutionSpec& spec) = 0;
  // Equal specs may share one object.
  virtual std::shared_ptr<Norm> norm(const NormSpec& spec) = 0;
  // Equal specs may share one object.
  virtual std::shared_ptr<Attention> attention(const AttentionSpec& spec) = 0;
  // Equal specs share one object: the gradient reads the reserve of the forward pass.
  virtual std::shared_ptr<Lstm> lstm(const LstmSpec& spec) = 0;
  // For mode primitives. Lives as long as the device.
  virtual Calls& calls() = 0;
  // Null for one rank.
  virtual RankSums* ranks() { return nullptr; }
  // Captures the work of the parts, which are enqueued in order. Null if the device cannot capture, or if there are fewer
  // than `min_nodes` kernels and copies.
  virtual std::unique_ptr<Recording> record(std::span<const GraphPart> parts, std::size_t min_nodes) = 0;
  virtual void synchronize() = 0;
};

// Throws Unavailable without a device.
std::unique_ptr<Device> open_device(const DeviceOptions& options);

}  // namespace assay::cuda
