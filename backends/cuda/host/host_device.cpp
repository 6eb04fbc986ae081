// The host as a device: its kernels are loops, its products are our own. For tests of everything except the
// GPU.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "backends/cuda/device.hpp"
#include "backends/cuda/host/host_calls.hpp"
#include "backends/cuda/own_attention.hpp"
#include "backends/cuda/own_lstm.hpp"
#include "backends/cuda/own_norm.hpp"
#include "backends/cuda/own_products.hpp"
#include "backends/cuda/workspace.hpp"
#include "harness/engine/host_backed_memory.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {
namespace {

// In the place of a library's: named so that a test can tell them from kernels that run on a GPU, too.
constexpr const char* product_name = "host:product";

// The host's memory, aligned as a GPU's.
class AlignedMemory final : public HostBackedMemory {
 public:
  std::int64_t alignment() const override { return workspace_alignment; }
  void* allocate(std::int64_t bytes, const char* purpose) override {
    const std::int64_t rounded = ceil_div(larger(bytes, 1), workspace_alignment) * workspace_alignment;
    void* const pointer = std::aligned_alloc(workspace_alignment, static_cast<std::size_t>(rounded));
    if (pointer == nullptr) throw OutOfMemory(fmt::format("no memory for {} bytes of {}", bytes, purpose));
    return pointer;
  }
  void release(void* pointer) noexcept override { std::free(pointer); }
  bool is_host() const override { return true; }
};

// Our own product with a workspace, which a vendor's library may ask for: refuses one that is not aligned, and
// overwrites all of it.
template <typename Product>
class WithWorkspace : public Product {
 public:
  explicit WithWorkspace(std::unique_ptr<Product> product) : product_(std::move(product)) {}
  std::int64_t workspace_bytes() const override { return bytes_; }
  std::string name() const override { return product_->name(); }
  void run(const void* a, const void* b, const float* bias, void* result, void* workspace) override {
    overwrite(workspace);
    product_->run(a, b, bias, result, nullptr);
  }

 protected:
  static void overwrite(void* workspace) {
    check_workspace("host", workspace, bytes_);
    std::memset(workspace, 0xa5, static_cast<std::size_t>(bytes_));
  }
  Product& product() { return *product_; }

 private:
  static constexpr std::int64_t bytes_ = 330;  // no multiple of an alignment
  std::unique_ptr<Product> product_;
};

class HostMatmul final : public WithWorkspace<Matmul> {
 public:
  using WithWorkspace::WithWorkspace;
  void run_onto(const void* added, const void* a, const void* b, const float* bias, void* c,
                void* workspace) override {
    overwrite(workspace);
    product().run_onto(added, a, b, bias, c, nullptr);
  }
};

// Overwrites the reserve once the gradient has read it, as cuDNN does.
class OverwritingLstm final : public Lstm {
 public:
  explicit OverwritingLstm(std::unique_ptr<Lstm> lstm) : lstm_(std::move(lstm)) {}
  std::int64_t reserve_bytes() const override { return lstm_->reserve_bytes(); }
  std::int64_t forward_workspace_bytes() const override { return lstm_->forward_workspace_bytes(); }
  std::int64_t gradient_workspace_bytes() const override { return lstm_->gradient_workspace_bytes(); }
  std::string name() const override { return lstm_->name(); }
  void forward(const LstmOperands& operands, void* y, void* reserve, void* workspace) override {
    lstm_->forward(operands, y, reserve, workspace);
  }
  void gradient(const LstmOperands& operands, const void* dy, void* reserve, const LstmGradients& gradients,
                void* workspace) override {
    lstm_->gradient(operands, dy, reserve, gradients, workspace);
    std::memset(reserve, 0xa5, static_cast<std::size_t>(lstm_->reserve_bytes()));
  }

 private:
  std::unique_ptr<Lstm> lstm_;
};

class HostDevice final : public Device {
 public:
  Memory& memory() override {
    // Never destroyed: the memory of a static object may be released last.
    static AlignedMemory* const memory = new AlignedMemory;
    return *memory;
  }
  Stream stream() override { return {}; }
  std::unique_ptr<Matmul> matmul(const MatmulSpec& spec) override {
    return std::make_unique<HostMatmul>(make_own_matmul(spec, stream(), product_name));
  }
  std::shared_ptr<Convolution> convolution(const ConvolutionSpec& spec) override {
    if (spec.bare) reject_doubtful(spec);
    return std::make_shared<WithWorkspace<Convolution>>(make_own_convolution(spec, stream(), product_name));
  }
  std::shared_ptr<Norm> norm(const NormSpec& spec) override { return make_own_norm(spec, stream()); }
  std::shared_ptr<Attention> attention(const AttentionSpec& spec) override {
    return make_own_attention(spec, *this);
  }
  std::shared_ptr<Lstm> lstm(const LstmSpec& spec) override {
    std::shared_ptr<Lstm>& known = lstms_[spec];
    if (known == nullptr) known = std::make_shared<OverwritingLstm>(make_own_lstm(spec, *this, "host:lstm"));
    return known;
  }
  Calls& calls() override { return *calls_; }
  std::unique_ptr<Recording> record(std::span<const GraphPart>, std::size_t) override { return nullptr; }
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
  std::map<LstmSpec, std::shared_ptr<Lstm>> lstms_;
};

}  // namespace

std::unique_ptr<Device> open_device(const DeviceOptions&) { return std::make_unique<HostDevice>(); }

}  // namespace assay::cuda
