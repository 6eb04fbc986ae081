#include "harness/graph/builder.hpp"
#include "harness/graph/ops/op_list.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class AveragePool final : public Op {
 public:
  std::string_view name() const override { return "average_pool"; }
  std::string_view contract() const override {
    return "The mean over each kernel x kernel window of x (N, C, H, W). The divisor is always kernel * "
           "kernel: padding"
           " counts as zeros (PyTorch's count_include_pad=True). The output has floor((H + 2 padding - "
           "kernel) /"
           " stride) + 1 rows: a last window that does not fit is dropped. Padding is less than the kernel. "
           "y has the"
           " type of x; sums are f32 beside bf16.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"kernel", "stride", "padding"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.rank(0, 4);
    in.floating(0);
    const Shape& x = in.shape(0);
    const SlidingWindow window = square_window(in, attributes, x[2], x[3]);
    return {{in.dtype(0), {x[0], x[1], window.rows(x[2]), window.columns(x[3])}}};
  }
  double flops(const Attributes& attributes, std::span<const TensorType>,
               std::span<const TensorType> outputs) const override {
    const auto kernel = static_cast<double>(attributes.get<std::int64_t>("kernel"));
    return static_cast<double>(outputs[0].elements()) * kernel * kernel;
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    const Shape& x = builder.graph().value(node.inputs[0]).type.shape;
    Attributes attributes = node.attributes;
    attributes.set("size", std::vector<std::int64_t>{x[2], x[3]});
    return builder.apply("average_pool_gradient", {output_gradients[0], none}, std::move(attributes),
                         node.name + ".gradient");
  }
};

class AveragePoolGradient final : public Op {
 public:
  std::string_view name() const override { return "average_pool_gradient"; }
  std::string_view contract() const override {
    return "dx[n,c,h,w] = the sum of dy over the windows that hold (h, w), divided by kernel * kernel. "
           "Attribute"
           " size [H, W] is that of x. dx has the type of dy. The optional operand mask (written by fusion, "
           "of the"
           " shape and type of dx) is the output of the ReLU before: dx is 0 where mask <= 0.";
  }
  std::vector<Operand> operands() const override {
    return {{"dy", false, Kind::any}, {"mask", true, Kind::any}};
  }
  std::vector<std::string> attributes() const override { return {"kernel", "stride", "padding", "size"}; }
  std::vector<Result> results() const override { return {{"dx"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.rank(0, 4);
    in.floating(0);
    const Shape& dy = in.shape(0);
    const std::vector<std::int64_t> size = size_attribute(in, attributes, "size", 2);
    const SlidingWindow window = square_window(in, attributes, size[0], size[1]);
    in.require(dy[2] == window.rows(size[0]) && dy[3] == window.columns(size[1]),
               "dy does not follow from the attribute 'size'");
    const Shape dx{dy[0], dy[1], size[0], size[1]};
    in.mask(1, dx);
    return {{in.dtype(0), dx}};
  }
  double flops(const Attributes& attributes, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    const auto kernel = static_cast<double>(attributes.get<std::int64_t>("kernel"));
    return static_cast<double>(inputs[0].elements()) * kernel * kernel;
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
