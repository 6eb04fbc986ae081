// The host as a device: its kernels are loops, its products are our own. For tests of everything except the
// GPU.
#include <fmt/format.h>

#include "backends/cuda/device.hpp"
#include "backends/cuda/host/host_calls.hpp"
#include "backends/cuda/own_lstm.hpp"
#include "backends/cuda/own_products.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {
namespace {

// In the place of a library's: named so that a test can tell them from kernels that run on a GPU, too.
constexpr const char* product_name = "host:product";

class HostDevice final : public Device {
 public:
  Memory& memory() override { return host_memory(); }
  Stream stream() override { return {}; }
  std::unique_ptr<Matmul> matmul(const MatmulSpec& spec) override {
    return make_own_matmul(spec, stream(), product_name);
  }
  std::shared_ptr<Convolution> convolution(const ConvolutionSpec& spec) override {
    if (spec.bare) reject_doubtful(spec);
    return make_own_convolution(spec, stream(), product_name);
  }
  std::unique_ptr<Lstm> lstm(const LstmSpec& spec) override {
    return make_own_lstm(spec, *this, "host:lstm");
  }
  Calls& calls() override { return *calls_; }
  std::unique_ptr<Recording> record(const std::function<void()>&) override { return nullptr; }
  void synchronize() override {}

 private:
  // What cuDNN has engines for on some GPUs only: a bias without tensor cores, and a result of another type
  // than the operands.
  static void reject_doubtful(const ConvolutionSpec& spec) {
    const bool tensor_cores = spec.tf32 || spec.operands == DType::bf16;
    if ((spec.bias && !tensor_cores) || spec.result != spec.operands)
      throw Unsupported(fmt::format("[convolution] {} to {} with{} bias has no engine here",
                                    to_string(spec.operands), to_string(spec.result),
                                    spec.bias ? "" : "out"));
  }

  std::unique_ptr<Calls> calls_ = make_host_calls();
};

}  // namespace

std::unique_ptr<Device> open_device(const DeviceOptions&) { return std::make_unique<HostDevice>(); }

}  // namespace assay::cuda
