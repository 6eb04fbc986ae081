// The host as a device: its kernels are loops, its products are our own. For tests of everything except the
// GPU.
#include "backends/cuda/device.hpp"
#include "backends/cuda/own_lstm.hpp"
#include "backends/cuda/own_products.hpp"

namespace assay::cuda {
namespace {

class HostDevice final : public Device {
 public:
  Memory& memory() override { return host_memory(); }
  Stream stream() override { return {}; }
  std::unique_ptr<Matmul> matmul(const MatmulSpec& spec) override { return make_own_matmul(spec, stream()); }
  std::shared_ptr<Convolution> convolution(const ConvolutionSpec& spec) override {
    return make_own_convolution(spec, stream());
  }
  std::unique_ptr<Lstm> lstm(const LstmSpec& spec) override { return make_own_lstm(spec, *this); }
  std::unique_ptr<Recording> record(const std::function<void()>&) override { return nullptr; }
  void synchronize() override {}
};

}  // namespace

std::unique_ptr<Device> open_device(const DeviceOptions&) { return std::make_unique<HostDevice>(); }

}  // namespace assay::cuda
