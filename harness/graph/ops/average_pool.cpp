#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class AveragePool final : public Op {
 public:
  std::string_view name() const override { return "average_pool"; }
  std::string_view contract() const override {
    return "The mean over each window of x (N, C, H, W). The divisor is always the number of elements of the "
           "kernel: padding counts as zeros (PyTorch's count_include_pad=True); with count_padding false it is "
           "the number of those that are in the image. The output has floor((H + paddings - kernel) / stride) "
           "+ 1 rows: a last window that does not fit is dropped. kernel and stride are one number or [rows, "
           "columns], the padding is one or [top, left, bottom, right], less than the kernel. y has the type "
           "of x; sums are f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override {
    return {"kernel", "stride", "padding", "count_padding"};
  }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    counts_padding(attributes);  // throws
    return {infer_pool(Operands(*this, inputs, present), attributes)};
  }
  double flops(const Attributes& attributes, std::span<const TensorType>,
               std::span<const TensorType> outputs) const override {
    return static_cast<double>(outputs[0].elements()) * window_elements(attributes);
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("average_pool_gradient", {output_gradients[0], none},
                         pool_gradient_attributes(builder.graph(), node), node.name + ".gradient");
  }
};

class AveragePoolGradient final : public Op {
 public:
  std::string_view name() const override { return "average_pool_gradient"; }
  std::string_view contract() const override {
    return "dx[n,c,h,w] = the sum over the windows that contain (h, w) of dy, divided by the divisor of the "
           "window in average_pool. Attribute size [H, W] is that of x; the others are those of average_pool. "
           "dx has the type of dy. The optional operand mask (written by fusion, of the shape and type of dx) "
           "is the output of the ReLU before it: dx is 0 where mask <= 0.";
  }
  std::vector<Operand> operands() const override {
    return {{"dy", false, Kind::any}, {"mask", true, Kind::any}};
  }
  std::vector<std::string> attributes() const override {
    return {"kernel", "stride", "padding", "count_padding", "size"};
  }
  std::vector<Result> results() const override { return {{"dx"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    counts_padding(attributes);  // throws
    return {infer_pool_gradient(Operands(*this, inputs, present), attributes, 1)};
  }
  double flops(const Attributes& attributes, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements()) * window_elements(attributes);
  }
};

}  // namespace

const Op& average_pool_op() {
  static const AveragePool op;
  return op;
}
const Op& average_pool_gradient_op() {
  static const AveragePoolGradient op;
  return op;
}

}  // namespace assay
