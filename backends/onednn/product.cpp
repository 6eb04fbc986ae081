// Products of matrices (matmul) and of vectors (dot).
#include "backends/onednn/lowering.hpp"
#include "backends/onednn/reduction.hpp"

namespace assay::onednn {
namespace {

// The matrices for matmul: a transposed matrix is the same bytes with two strides exchanged.
Desc matrices(const TensorType& type, bool transposed) {
  const Desc desc = row_major(type);
  if (!transposed) return desc;
  std::vector<int> permutation(type.shape.size());
  for (std::size_t d = 0; d < permutation.size(); ++d) permutation[d] = static_cast<int>(d);
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return ASSAY_ONEDNN(desc.permute_axes(permutation));
}

Lowered lower_matmul(const Request& request) {
  const Desc a = matrices(request.inputs[0], request.node.attributes.get<bool>("transpose_a"));
  const Desc b = matrices(request.inputs[1], request.node.attributes.get<bool>("transpose_b"));
  const Desc y = row_major(request.outputs[0]);
  const auto chosen =
      ASSAY_ONEDNN(dnnl::matmul::primitive_desc(request.context.engine, a, b, y, attributes()));
  Lowered lowered = draft(request);
  for (std::size_t i = 0; i < 2; ++i) lowered.inputs[i] = to_format(row_major(request.inputs[i]));
  lowered.outputs[0] = to_format(y);
  auto kernel = std::make_unique<PrimitiveKernel>(request.context, ASSAY_ONEDNN(dnnl::matmul(chosen)));
  kernel->input(DNNL_ARG_SRC, a, 0).input(DNNL_ARG_WEIGHTS, b, 1).output(DNNL_ARG_DST, y, 0);
  finish(lowered, std::move(kernel), chosen.scratchpad_desc());
  return lowered;
}

// oneDNN's matmul of a row by a column uses only one thread.
class DotKernel final : public Kernel {
 public:
  DotKernel(int threads, const TensorType& type)
      : reduction_(type, std::array<std::int64_t, 1>{0}, Fold::product, threads) {}
  std::int64_t scratch_bytes() const { return reduction_.scratch_bytes(); }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    a_ = inputs[0];
    b_ = inputs[1];
    y_ = static_cast<float*>(outputs[0]);
    scratch_ = static_cast<double*>(scratch);
  }
  void run() override { *y_ = static_cast<float>(*reduction_.run(a_, b_, scratch_)); }

 private:
  Reduction reduction_;
  const void *a_ = nullptr, *b_ = nullptr;
  float* y_ = nullptr;
  double* scratch_ = nullptr;
};

Lowered lower_dot(const Request& request) {
  Lowered lowered = draft(request);
  for (std::size_t i = 0; i < 2; ++i) lowered.inputs[i] = to_format(row_major(request.inputs[i]));
  lowered.outputs[0] = to_format(row_major(request.outputs[0]));
  auto kernel = std::make_unique<DotKernel>(request.context.threads, request.inputs[0]);
  lowered.scratch_bytes = kernel->scratch_bytes();
  lowered.kernel = std::move(kernel);
  return lowered;
}

}  // namespace

std::span<const OpEntry> product_ops() {
  static constexpr std::array entries{OpEntry{"matmul", lower_matmul, true}, OpEntry{"dot", lower_dot}};
  return entries;
}

}  // namespace assay::onednn
