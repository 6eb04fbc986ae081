// The choice of a library's engine for one operation by measurement.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/core/tensor.hpp"
#include "harness/engine/memory.hpp"

namespace assay::cuda {

// What a library offers for one operation, the engine that it expects to be the fastest first.
class Engines {
 public:
  virtual ~Engines() = default;
  virtual std::int64_t count() const = 0;
  // Whether the engine's code is generated when it is built, which takes up to seconds.
  virtual bool is_generated(std::int64_t engine) const = 0;
  // False if it cannot run here. May be called again.
  virtual bool build(std::int64_t engine) = 0;
  // The engine must have been built.
  virtual std::int64_t workspace_bytes(std::int64_t engine) const = 0;
  // Seconds of one run; empty if the run fails. Leaves no work enqueued.
  virtual std::optional<double> measure(std::int64_t engine, void* workspace) = 0;
};

struct SearchLimits {
  int built = 8;      // those far down the list do not win
  int generated = 2;  // of them
};

struct FoundEngine {
  std::int64_t engine = 0;
  double seconds = 0;
};

// The fastest of the first engines that can be built; empty if no run of them succeeded. Throws OutOfMemory if
// `trial` has no room for a workspace; the caller may go on with any engine that it built.
std::optional<FoundEngine> fastest_engine(Engines& engines, Memory& trial, const SearchLimits& limits = {});

// Numbers in [-1, 1), f32 or bf16: some engines are faster on zeros.
void fill_with_noise(Memory& memory, void* to, std::int64_t bytes, DType dtype);

}  // namespace assay::cuda
