// A device that writes down what it is asked for, and whose products do nothing.
#pragma once

#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include "backends/cuda/device.hpp"
#include "backends/cuda/own_attention.hpp"
#include "backends/cuda/own_norm.hpp"

namespace assay::cuda {

struct Work {
  std::set<ConvolutionSpec> convolutions;
  std::set<MatmulSpec> products;
  std::set<LstmSpec> lstms;
  std::set<NormSpec> norms;
  std::set<AttentionSpec> attentions;
  HostStream stream;
  std::int64_t launches() const { return stream.launches; }  // of our kernels, on the host
  std::int64_t calls = 0;  // of a library: each counts as one, however many kernels it launches
};

template <typename Product>
class Nothing : public Product {
 public:
  explicit Nothing(Work& work) : work_(work) {}
  std::string name() const override { return "nothing"; }
  void run(const void*, const void*, const float*, void*, void*) override { ++work_.calls; }

 private:
  Work& work_;
};

class NoMatmul final : public Nothing<Matmul> {
 public:
  using Nothing::Nothing;
  void run_onto(const void*, const void* a, const void* b, const float* bias, void* c, void* space) override {
    run(a, b, bias, c, space);
  }
};

class NoLstm final : public Lstm {
 public:
  explicit NoLstm(Work& work) : work_(work) {}
  std::int64_t reserve_bytes() const override { return 1; }
  std::int64_t forward_workspace_bytes() const override { return 0; }
  std::int64_t gradient_workspace_bytes() const override { return 0; }
  std::string name() const override { return "nothing"; }
  void forward(const LstmOperands&, void*, void*, void*) override { ++work_.calls; }
  void gradient(const LstmOperands&, const void*, void*, const LstmGradients&, void*) override {
    ++work_.calls;
  }

 private:
  Work& work_;
};

class NoNorm final : public Norm {
 public:
  explicit NoNorm(Work& work) : work_(work) {}
  std::string name() const override { return "nothing"; }
  void run(const NormOperands&, void*) override { ++work_.calls; }

 private:
  Work& work_;
};

class NoAttention final : public Attention {
 public:
  explicit NoAttention(Work& work) : work_(work) {}
  std::int64_t workspace_bytes() const override { return 0; }
  std::string name() const override { return "nothing"; }
  void run(const AttentionOperands&, void*) override { ++work_.calls; }

 private:
  Work& work_;
};

// Nothing reads it, so the system need not provide its pages.
class MemoryWithoutBytes final : public Memory {
 public:
  void* allocate(std::int64_t bytes, const char* purpose) override {
    return host_memory().allocate(bytes, purpose);
  }
  void release(void* pointer) noexcept override { host_memory().release(pointer); }
  void clear(void*, std::int64_t) override {}
  void copy(void*, const void*, std::int64_t) override {}
  void put(void*, const void*, std::int64_t) override {}
  const void* land(const void* host, std::int64_t) override { return host; }
  void fetch(void*, const void*, std::int64_t) override {}
};

class DeviceWithoutWork final : public Device {
 public:
  explicit DeviceWithoutWork(Work& work) : work_(work) {}
  Memory& memory() override {
    static MemoryWithoutBytes* const memory = new MemoryWithoutBytes;
    return *memory;
  }
  Stream stream() override { return {&work_.stream}; }
  std::unique_ptr<Matmul> matmul(const MatmulSpec& spec) override {
    work_.products.insert(spec);
    return std::make_unique<NoMatmul>(work_);
  }
  std::shared_ptr<Convolution> convolution(const ConvolutionSpec& spec) override {
    work_.convolutions.insert(spec);
    return std::make_shared<Nothing<Convolution>>(work_);
  }
  // By the library where it has engines: see plans_test.cpp.
  std::shared_ptr<Norm> norm(const NormSpec& spec) override {
    work_.norms.insert(spec);
    if (!spec.channels_last || !spec.is_one_graph()) return make_own_norm(spec, stream());
    return std::make_shared<NoNorm>(work_);
  }
  // A small one by our own kernels, a large one by the library where it has engines: see plans_test.cpp.
  std::shared_ptr<Attention> attention(const AttentionSpec& spec) override {
    work_.attentions.insert(spec);
    if (is_small(spec) || !spec.is_one_graph()) return make_own_attention(spec, *this);
    return std::make_shared<NoAttention>(work_);
  }
  std::shared_ptr<Lstm> lstm(const LstmSpec& spec) override {
    work_.lstms.insert(spec);
    return std::make_shared<NoLstm>(work_);
  }
  Calls& calls() override { throw std::logic_error("this device has no calls"); }
  std::unique_ptr<Recording> record(std::span<const GraphPart>, std::size_t) override { return nullptr; }
  void synchronize() override {}

 private:
  Work& work_;
};

}  // namespace assay::cuda
