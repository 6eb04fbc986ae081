// The narrow copies of parameters, which a step makes of all of them at once.
#pragma once

#include <string_view>

#include "backends/cuda/joined.hpp"
#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/kernels/portable.hpp"

namespace assay::cuda {

// f32 -> bf16 of one tensor.
class Narrowing final : public Joinable {
 public:
  Narrowing(Stream stream, std::int64_t elements) : stream_(stream), elements_(elements) {}
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    from_ = static_cast<const float*>(inputs[0]);
    to_ = static_cast<Bf16*>(outputs[0]);
  }
  std::string_view implementation() const override { return "own:pointwise"; }
  void run() override;
  bool joins(const Joinable& other) const override;
  std::unique_ptr<Kernel> join(const std::vector<const Joinable*>& all) const override;

  const float* from() const { return from_; }
  Bf16* to() const { return to_; }
  std::int64_t elements() const { return elements_; }

 private:
  bool is_bound() const { return from_ != nullptr && to_ != nullptr; }

  Stream stream_;
  std::int64_t elements_;
  const float* from_ = nullptr;
  Bf16* to_ = nullptr;
};

}  // namespace assay::cuda
