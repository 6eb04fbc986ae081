// What a search compares: the results of a library's engine with those of our own kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "backends/cuda/engine_search.hpp"

namespace assay::cuda {

class ComparedResults {
 public:
  // allowed: a larger relative_distance() of `result` from `expected` is wrong; 0: they must be equal.
  void add(void* result, const void* expected, std::int64_t elements, DType dtype, double allowed,
           Runs runs = {}) {
    results_.push_back({result, expected, elements, dtype, allowed, runs});
  }
  void forget() { results_.clear(); }
  // Before the engine runs, so that no earlier result is taken for its own.
  void clear(Memory& memory) const {
    for (const Result& of : results_) memory.clear(of.result, of.runs.span(of.elements) * size_of(of.dtype));
  }
  // The largest distance, in units of what is allowed; infinity if one is not finite or not equal. Synchronises.
  double largest(Stream stream, Memory& memory) const {
    double largest = 0;
    for (const Result& of : results_) {
      const double distance =
          relative_distance(stream, memory, of.dtype, of.result, of.expected, of.elements, of.runs);
      const bool equal = of.allowed == 0;
      if (!std::isfinite(distance) || (equal && distance != 0))
        return std::numeric_limits<double>::infinity();
      if (!equal) largest = std::max(largest, distance / of.allowed);
    }
    return largest;
  }

 private:
  struct Result {
    void* result = nullptr;
    const void* expected = nullptr;
    std::int64_t elements = 0;
    DType dtype = DType::f32;
    double allowed = 0;
    Runs runs = {};
  };
  std::vector<Result> results_;
};

}  // namespace assay::cuda
