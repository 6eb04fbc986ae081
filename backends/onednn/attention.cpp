// Attention and its gradient, fused: the scores exist only in blocks.
#include <omp.h>

#include <cmath>

#include "backends/onednn/loops/attention.hpp"
#include "backends/onednn/lowering.hpp"
#include "backends/onednn/parallel.hpp"

namespace assay::onednn {
namespace {

AttentionShape attention_shape(const Request& request) {
  const Shape &q = request.inputs[0].shape, &k = request.inputs[1].shape;
  const double scale = request.node.attributes.number("scale");
  AttentionShape s{};
  s.samples = q[0];
  s.queries = q[1];
  s.heads = q[2];
  s.depth = q[3];
  s.keys = k[1];
  s.groups = k[2];
  s.causal = request.node.attributes.get<bool>("causal");
  s.scale = static_cast<float>(scale == 0 ? 1 / std::sqrt(static_cast<double>(s.depth)) : scale);
  if (request.has_input(3)) {
    const Shape& mask = request.inputs[3].shape;
    const std::int64_t query = mask[3], head = query * mask[2], sample = head * mask[1];
    s.mask_query = mask[2] == 1 ? 0 : query;
    s.mask_head = mask[1] == 1 ? 0 : head;
    s.mask_sample = mask[0] == 1 ? 0 : sample;
  }
  return s;
}

// Each thread has a part of the scratch.
class Tasks {
 public:
  Tasks(int threads, std::int64_t tasks, std::int64_t floats)
      : threads_(threads), tasks_(tasks), floats_(floats) {}

  std::int64_t scratch_bytes() const { return threads_ * floats_ * static_cast<std::int64_t>(sizeof(float)); }
  // Calls f(begin, end, scratch) on each thread.
  template <typename F>
  void run(void* scratch, const F& f) const {
    parallel(threads_, tasks_, 1, [&](std::int64_t begin, std::int64_t end) {
      f(begin, end, static_cast<float*>(scratch) + omp_get_thread_num() * floats_);
    });
  }

 private:
  int threads_;
  std::int64_t tasks_, floats_;
};

// Operands q, k, v, mask; results y, logsumexp.
class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(const Request& request, const AttentionLoops& loops)
      : loops_(loops),
        work_{.shape = attention_shape(request),
              .q = nullptr,
              .k = nullptr,
              .v = nullptr,
              .mask = nullptr,
              .y = nullptr,
              .logsumexp = nullptr},
        tasks_(request.context.threads, loops.forward_tasks(work_.shape),
               loops.forward_scratch(work_.shape)) {}

  std::int64_t scratch_bytes() const { return tasks_.scratch_bytes(); }
  std::string_view implementation() const override { return "own:blocks"; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    work_.q = inputs[0];
    work_.k = inputs[1];
    work_.v = inputs[2];
    work_.mask = inputs.size() > 3 ? static_cast<const float*>(inputs[3]) : nullptr;
    work_.y = outputs[0];
    work_.logsumexp = outputs.size() > 1 ? static_cast<float*>(outputs[1]) : nullptr;
    scratch_ = scratch;
  }
  void run() override {
    tasks_.run(scratch_, [this](std::int64_t begin, std::int64_t end, float* scratch) {
      loops_.forward(work_, begin, end, scratch);
    });
  }

 private:
  const AttentionLoops& loops_;
  AttentionForward work_;
  Tasks tasks_;
  void* scratch_ = nullptr;
};

// Operands q, k, v, mask, y, logsumexp, dy; results dq, dk, dv.
class AttentionGradientKernel final : public Kernel {
 public:
  AttentionGradientKernel(const Request& request, const AttentionLoops& loops)
      : loops_(loops),
        work_{.shape = attention_shape(request),
              .q = nullptr,
              .k = nullptr,
              .v = nullptr,
              .mask = nullptr,
              .y = nullptr,
              .logsumexp = nullptr,
              .dy = nullptr,
              .dq = nullptr,
              .dk = nullptr,
              .dv = nullptr},
        tasks_(request.context.threads, work_.shape.samples * work_.shape.groups,
               loops.backward_scratch(work_.shape)) {}

  std::int64_t scratch_bytes() const { return tasks_.scratch_bytes(); }
  std::string_view implementation() const override { return "own:blocks"; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    work_.q = inputs[0];
    work_.k = inputs[1];
    work_.v = inputs[2];
    work_.mask = static_cast<const float*>(inputs[3]);
    work_.y = inputs[4];
    work_.logsumexp = static_cast<const float*>(inputs[5]);
    work_.dy = inputs[6];
    work_.dq = outputs[0];
    work_.dk = outputs[1];
    work_.dv = outputs[2];
    scratch_ = scratch;
  }
  void run() override {
    tasks_.run(scratch_, [this](std::int64_t begin, std::int64_t end, float* scratch) {
      loops_.backward(work_, begin, end, scratch);
    });
  }

 private:
  const AttentionLoops& loops_;
  AttentionBackward work_;
  Tasks tasks_;
  void* scratch_ = nullptr;
};

template <typename KernelOf>
Lowered lower_attention(const Request& request) {
  Lowered lowered = row_major_draft(request);
  auto kernel = std::make_unique<KernelOf>(request, attention_loops(request.inputs[0].dtype == DType::bf16));
  lowered.scratch_bytes = kernel->scratch_bytes();
  lowered.kernel = std::move(kernel);
  return lowered;
}

}  // namespace

std::span<const OpEntry> attention_ops() {
  static constexpr std::array entries{
      OpEntry{"attention", lower_attention<AttentionKernel>},
      OpEntry{"attention_gradient", lower_attention<AttentionGradientKernel>}};
  return entries;
}

}  // namespace assay::onednn
