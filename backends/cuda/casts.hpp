// The copies of parameters that the products of a step read: narrow, or of several as one tensor. A step makes all of them
// at once.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "backends/cuda/joined.hpp"
#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {

// f32 -> f32 or bf16 of the elements of one tensor or more, one after the other.
class ParameterCopy final : public JoinableAs<ParameterCopy> {
 public:
  ParameterCopy(Stream stream, std::vector<std::int64_t> elements, DType to)
      : stream_(stream), elements_(std::move(elements)), dtype_(to) {}
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    from_.assign(inputs.begin(), inputs.end());
    to_ = outputs[0];
  }
  std::string_view implementation() const override { return "own:pointwise"; }
  bool joins_one(const ParameterCopy& other) const { return is_bound() && other.is_bound(); }
  // In one launch, if a launch can name all.
  void run_all(std::span<const ParameterCopy* const> all) const;

 private:
  bool is_bound() const {
    return to_ != nullptr && !from_.empty() && std::ranges::count(from_, nullptr) == 0;
  }

  Stream stream_;
  std::vector<std::int64_t> elements_;
  DType dtype_;
  std::vector<const void*> from_;
  void* to_ = nullptr;
};

}  // namespace assay::cuda
