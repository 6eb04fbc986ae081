#include "harness/graph/builder.hpp"
#include "harness/graph/ops/op_list.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class MaxPool final : public Op {
 public:
  std::string_view name() const override { return "max_pool"; }
  std::string_view contract() const override {
    return "The maximum over each kernel x kernel window of x (N, C, H, W); padding never wins. Of equal "
           "elements the"
           " first in row-major order within the window wins and gets the gradient. The output has floor((H "
           "+ 2"
           " padding - kernel) / stride) + 1 rows. Padding is less than the kernel. y has the type of x. The "
           "saved"
           " result argmax says which element won; its form is the backend's own.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return {"kernel", "stride", "padding"}; }
  std::vector<Result> results() const override { return {{"y"}, {"argmax", true, true, true}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.rank(0, 4);
    in.floating(0);
    const Shape& x = in.shape(0);
    const SlidingWindow window = square_window(in, attributes, x[2], x[3]);
    return {{in.dtype(0), {x[0], x[1], window.rows(x[2]), window.columns(x[3])}}, {}};
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
    return builder.apply("max_pool_gradient", {output_gradients[0], node.outputs[1], none},
                         std::move(attributes), node.name + ".gradient");
  }
};

class MaxPoolGradient final : public Op {
 public:
  std::string_view name() const override { return "max_pool_gradient"; }
  std::string_view contract() const override {
    return "dx[n,c,h,w] = the sum of dy over the windows whose maximum was (h, w), 0 elsewhere. argmax is "
           "what max_pool"
           " saved. Attribute size [H, W] is that of x. dx has the type of dy. The optional operand mask "
           "(written by"
           " fusion, of the shape and type of dx) is the output of the ReLU before: dx is 0 where mask <= 0.";
  }
  std::vector<Operand> operands() const override {
    return {{"dy", false, Kind::any}, {"argmax", false, Kind::index}, {"mask", true, Kind::any}};
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
    in.mask(2, dx);
    return {{in.dtype(0), dx}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements());
  }
};

}  // namespace

const Op& max_pool_op() {
  static const MaxPool op;
  return op;
}
const Op& max_pool_gradient_op() {
  static const MaxPoolGradient op;
  return op;
}

}  // namespace assay
