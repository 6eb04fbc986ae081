// The choice of a library's engine for one operation by measurement, of those whose results are right.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/kernels/launch.hpp"
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
  // How far the result of a run is from the right one: relative_distance(). Asked after measure().
  virtual double error(std::int64_t engine, void* workspace) = 0;
};

struct SearchLimits {
  int built = 8;                                           // those far down the list do not win
  int generated = 2;                                       // of them
  double error = std::numeric_limits<double>::infinity();  // a larger one is a wrong result
};

struct FoundEngine {
  std::int64_t engine = 0;
  double seconds = 0;
};

struct WrongEngine {
  std::int64_t engine = 0;
  double error = 0;
};

struct SearchResult {
  std::optional<FoundEngine> fastest = {};  // empty if no run succeeded with the right result
  // Those that were faster than what is taken, and wrong.
  std::vector<WrongEngine> wrong = {};
};

// The fastest of the first engines that can be built. Throws OutOfMemory if `trial` has no room for a workspace; the
// caller may go on with any engine that it built.
SearchResult fastest_engine(Engines& engines, Memory& trial, const SearchLimits& limits = {});

// The relative error in the 2-norm that rounding explains, where each element of the result is a sum of `terms`
// products of noise. The error of sums in f32 grows with the root of the terms (Higham 2002, section 4.2): about a
// thirtieth of what is allowed, so that the transforms of fast convolutions have room, and never so much that
// operands rounded to TF32 pass. Tensor cores cut sums off, so that with `operands` of bf16 or TF32 it grows with the
// terms. A result in bf16 and operands in TF32 are rounded themselves. roundings: of a result in bf16, which is rounded
// twice if a bias is added to a product in memory.
double allowed_error(DType operands, DType result, bool tf32, std::int64_t terms, int roundings = 1);

// Elements that lie in runs of `part`, each `row` elements after the one before.
struct Runs {
  std::int64_t part = 1, row = 1;
  // From the first element to the last.
  std::int64_t span(std::int64_t elements) const {
    return elements == 0 ? 0 : (elements / part - 1) * row + part;
  }
};
// |result - expected| / |expected| in the 2-norm, of `elements` f32 or bf16; not finite if one of them is not. 0 if
// both are zero. Synchronises.
double relative_distance(Stream stream, Memory& memory, DType dtype, const void* result, const void* expected,
                         std::int64_t elements, Runs runs = {});

// Numbers in [-scale, scale), f32 or bf16: some engines are faster on zeros. They repeat after a prime number of
// elements, and buffers of different seeds have different ones.
void fill_with_noise(Memory& memory, void* to, std::int64_t bytes, DType dtype, std::uint32_t seed = 0,
                     float scale = 1);

// Buffers of noise, each with another seed.
class NoiseBuffers {
 public:
  // Borrows the memory.
  NoiseBuffers(Memory& memory, const char* purpose) : memory_(memory), purpose_(purpose) {}
  // f32 or bf16; lives as long as this object.
  void* add(std::int64_t elements, DType dtype, float scale = 1);

 private:
  Memory& memory_;
  const char* purpose_;
  std::vector<Storage> storages_;
};

}  // namespace assay::cuda
