// Two-dimensional convolution and its gradients.
#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

// y: (N, O, OH, OW), weight: (O, I, KH, KW)
double multiply_adds(const Shape& y, const Shape& weight) {
  return 2.0 * static_cast<double>(element_count(y)) * static_cast<double>(weight[1]) *
         static_cast<double>(weight[2]) * static_cast<double>(weight[3]);
}

class Convolution final : public Op {
 public:
  std::string_view name() const override { return "convolution"; }
  std::string_view contract() const override {
    return "y[n,o,i,j] = bias[o] + sum over c,p,q of x[n, c, i*stride + p - padding, j*stride + q - "
           "padding] * weight[o,c,p,q], a cross-correlation, as in the frameworks. x (N, C, H, W), weight "
           "(O, C, KH, KW), bias (O); y (N, O, floor((H + 2 padding - KH) / stride) + 1, likewise for W). "
           "The padding is zeros, the same on all four sides, less than the kernel. x, weight and y have "
           "one type; the bias and the sums are f32 for bf16 data. Attribute activation \"relu\" (written "
           "by fusion): y is max(y, 0).";
  }
  std::vector<Operand> operands() const override { return {{"x"}, {"weight"}, {"bias", true, Kind::master}}; }
  std::vector<std::string> attributes() const override { return {"stride", "padding", "activation"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.rank(0, 4);
    in.rank(1, 4);
    in.floating(0);
    in.same_dtype(1, 0);
    const Shape& x = in.shape(0);
    const Shape& weight = in.shape(1);
    in.require(x[1] == weight[1], "the channels of x and the second dimension of the weight differ");
    if (in.has(2)) {
      in.shaped(2, {weight[0]});
      in.accumulates(2, 0);
    }
    check_activation(in, attributes);
    const SlidingWindow window = weight_window(in, attributes, weight[2], weight[3], x[2], x[3]);
    return {{in.dtype(0), {x[0], weight[0], window.rows(x[2]), window.columns(x[3])}}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType> outputs) const override {
    return multiply_adds(outputs[0].shape, inputs[1].shape);
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    reject_fused_gradient(*this, node);
    const ValueId dy = output_gradients[0];
    const ValueId x = node.inputs[0];
    const ValueId weight = node.inputs[1];
    const Shape image = builder.graph().value(x).type.shape;
    const Shape kernel = builder.graph().value(weight).type.shape;
    Attributes window{{"stride", node.attributes.get<std::int64_t>("stride")},
                      {"padding", node.attributes.get<std::int64_t>("padding")}};
    Attributes of_input = window;
    of_input.set("size", std::vector<std::int64_t>{image[2], image[3]});
    Attributes of_weight = window;
    of_weight.set("kernel", std::vector<std::int64_t>{kernel[2], kernel[3]});
    const ValueId dx = builder.apply("convolution_input_gradient", {dy, weight, none}, std::move(of_input),
                                     node.name + ".input_gradient")[0];
    const std::vector<ValueId> dw =
        builder.apply("convolution_weight_gradient", {x, dy}, std::move(of_weight),
                      node.name + ".weight_gradient", {true, node.inputs[2] != none});
    return {dx, dw[0], dw[1]};
  }
};

class ConvolutionInputGradient final : public Op {
 public:
  std::string_view name() const override { return "convolution_input_gradient"; }
  std::string_view contract() const override {
    return "dx[n,c,h,w] = sum of dy[n,o,i,j] * weight[o,c,p,q] over all o,i,j,p,q with i*stride + p - "
           "padding = h and j*stride + q - padding = w. Attribute size [H, W] is that of x. dy, weight and "
           "dx have one type; sums are f32 for bf16 data. The optional operand mask (written by fusion, of "
           "the shape and type of dx) is the output of the ReLU before it: dx is 0 where mask <= 0.";
  }
  std::vector<Operand> operands() const override { return {{"dy"}, {"weight"}, {"mask", true}}; }
  std::vector<std::string> attributes() const override { return {"stride", "padding", "size"}; }
  std::vector<Result> results() const override { return {{"dx"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.rank(0, 4);
    in.rank(1, 4);
    in.floating(0);
    in.same_dtype(1, 0);
    const Shape& dy = in.shape(0);
    const Shape& weight = in.shape(1);
    const std::vector<std::int64_t> size = size_attribute(in, attributes, "size", 2);
    const SlidingWindow window = weight_window(in, attributes, weight[2], weight[3], size[0], size[1]);
    in.require(dy[1] == weight[0] && dy[2] == window.rows(size[0]) && dy[3] == window.columns(size[1]),
               "dy does not follow from the weight and the attribute 'size'");
    const Shape dx{dy[0], weight[1], size[0], size[1]};
    in.mask(2, dx);
    return {{in.dtype(0), dx}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return multiply_adds(inputs[0].shape, inputs[1].shape);
  }
};

class ConvolutionWeightGradient final : public Op {
 public:
  std::string_view name() const override { return "convolution_weight_gradient"; }
  std::string_view contract() const override {
    return "dweight[o,c,p,q] = sum over n,i,j of x[n, c, i*stride + p - padding, j*stride + q - padding] * "
           "dy[n,o,i,j]; bias_gradient[o] = sum over n,i,j of dy[n,o,i,j]. Attribute kernel [KH, KW]. x and "
           "dy have one type; the results have the type of the sums, f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override { return {{"x"}, {"dy"}}; }
  std::vector<std::string> attributes() const override { return {"stride", "padding", "kernel"}; }
  std::vector<Result> results() const override { return {{"dweight"}, {"bias_gradient", true}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.rank(0, 4);
    in.rank(1, 4);
    in.floating(0);
    in.same_dtype(1, 0);
    const Shape& x = in.shape(0);
    const Shape& dy = in.shape(1);
    const std::vector<std::int64_t> kernel = size_attribute(in, attributes, "kernel", 2);
    const SlidingWindow window = weight_window(in, attributes, kernel[0], kernel[1], x[2], x[3]);
    in.require(dy[0] == x[0] && dy[2] == window.rows(x[2]) && dy[3] == window.columns(x[3]),
               "dy does not follow from x and the attribute 'kernel'");
    const DType sum = accumulation(in.dtype(0));
    return {{sum, {dy[1], x[1], kernel[0], kernel[1]}}, {sum, {dy[1]}}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType> outputs) const override {
    return multiply_adds(inputs[1].shape, outputs[0].shape);
  }
};

}  // namespace

const Op& convolution_op() {
  static const Convolution op;
  return op;
}
const Op& convolution_input_gradient_op() {
  static const ConvolutionInputGradient op;
  return op;
}
const Op& convolution_weight_gradient_op() {
  static const ConvolutionWeightGradient op;
  return op;
}

}  // namespace assay
