// The narrow copies of parameters, which a step makes of all of them at once.
#pragma once

#include <string_view>

#include "backends/cuda/joined.hpp"
#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {

// f32 -> bf16 of one tensor.
class Narrowing final : public JoinableAs<Narrowing> {
 public:
  Narrowing(Stream stream, std::int64_t elements) : stream_(stream), elements_(elements) {}
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    from_ = static_cast<const float*>(inputs[0]);
    to_ = static_cast<Bf16*>(outputs[0]);
  }
  std::string_view implementation() const override { return "own:pointwise"; }
  bool joins_one(const Narrowing& other) const { return is_bound() && other.is_bound(); }
  // In one launch, if a launch can name all.
  void run_all(std::span<const Narrowing* const> all) const;

 private:
  bool is_bound() const { return from_ != nullptr && to_ != nullptr; }

  Stream stream_;
  std::int64_t elements_;
  const float* from_ = nullptr;
  Bf16* to_ = nullptr;
};

}  // namespace assay::cuda
