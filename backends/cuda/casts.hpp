// The narrow copies of parameters, which a step makes of all of them at once.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/kernels/portable.hpp"
#include "harness/engine/kernel_library.hpp"

namespace assay::cuda {

// f32 -> bf16 of one tensor.
class Narrowing final : public Kernel {
 public:
  Narrowing(Stream stream, std::int64_t elements) : stream_(stream), elements_(elements) {}
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    from_ = static_cast<const float*>(inputs[0]);
    to_ = static_cast<Bf16*>(outputs[0]);
  }
  std::string_view implementation() const override { return "own:pointwise"; }
  void run() override;

  const float* from() const { return from_; }
  Bf16* to() const { return to_; }
  std::int64_t elements() const { return elements_; }

 private:
  Stream stream_;
  std::int64_t elements_;
  const float* from_ = nullptr;
  Bf16* to_ = nullptr;
};

// Many of them in one launch. Borrows them.
class Narrowings final : public Kernel {
 public:
  Narrowings(Stream stream, std::vector<const Narrowing*> all) : stream_(stream), all_(std::move(all)) {}
  void bind(std::span<void* const>, std::span<void* const>, void*) override {}  // its parts are bound
  std::string_view implementation() const override { return "own:multi_tensor"; }
  void run() override;

 private:
  Stream stream_;
  std::vector<const Narrowing*> all_;
};

// Replaces neighbours in the list by one kernel in `owned`, where no one writes what another reads or writes.
// All are bound.
void join_narrowings(Stream stream, std::vector<Scheduled>& kernels,
                     std::vector<std::unique_ptr<Kernel>>& owned);

}  // namespace assay::cuda
