// Two-dimensional convolution, possibly in groups of channels, and its gradients.
#include <fmt/format.h>

#include "harness/core/text.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

// y: (N, O, OH, OW), weight: (O, I / groups, KH, KW)
double multiply_adds(const Shape& y, const Shape& weight) {
  return 2.0 * static_cast<double>(element_count(y)) * static_cast<double>(weight[1]) *
         static_cast<double>(weight[2]) * static_cast<double>(weight[3]);
}

// The groups into which the filters fall without a rest.
std::int64_t groups_attribute(const Operands& in, const Attributes& attributes, std::int64_t filters) {
  const std::int64_t groups = groups_of(attributes);
  if (groups < 1 || filters % groups != 0)
    in.reject(
        fmt::format("attribute 'groups' is {}, which does not divide {}", groups, plural(filters, "filter")));
  return groups;
}

// That x, operand 0, has the channels that the weights of its groups read.
void check_channels(const Operands& in, std::int64_t channels, std::int64_t of_group, std::int64_t groups) {
  if (channels % groups == 0 && channels / groups == of_group) return;
  in.reject(
      groups == 1
          ? "the channels of x and the second dimension of the weight differ"
          : fmt::format("x must have {} channels: {} of the weight's second dimension in each of {} groups",
                        of_group * groups, of_group, groups));
}

class Convolution final : public Op {
 public:
  std::string_view name() const override { return "convolution"; }
  std::string_view contract() const override {
    return "y[n,o,i,j] = bias[o] + sum over c,p,q of x[n, g*C/groups + c, i*stride + p*dilation - padding, "
           "j*stride + q*dilation - padding] * weight[o,c,p,q], a cross-correlation, as in the frameworks. x "
           "(N, C, H, W), weight (O, C/groups, KH, KW), bias (O); y (N, O, floor((H + paddings - (KH - 1) * "
           "dilation - 1) / stride) + 1, likewise for W). Filter o belongs to group g = floor(o * groups / "
           "O), and reads the channels of that group only; groups divides O and C. stride and dilation are "
           "one number or [rows, columns], the padding of zeros is one or [top, left, bottom, right], less "
           "than the extent of the kernel. Without dilation and groups they are 1. x, weight and y have one "
           "type; the bias and the sums are f32 for bf16 data. Attribute activation \"relu\" (written by "
           "fusion): y is max(y, 0).";
  }
  std::vector<Operand> operands() const override { return {{"x"}, {"weight"}, {"bias", true, Kind::master}}; }
  std::vector<std::string> attributes() const override {
    return {"stride", "padding", "dilation", "groups", "activation"};
  }
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
    check_channels(in, x[1], weight[1], groups_attribute(in, attributes, weight[0]));
    if (in.has(2)) {
      in.shaped(2, {weight[0]});
      in.accumulates(2, 0);
    }
    check_activation(in, attributes);
    const SlidingWindow window = weight_window(in, attributes, weight[2], weight[3], x[2], x[3]);
    return {{in.dtype(0), {x[0], weight[0], window.rows.windows(x[2]), window.columns.windows(x[3])}}};
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
    Attributes of_input = node.attributes, of_weight = node.attributes;
    of_input.set("size", std::vector<std::int64_t>{image[2], image[3]});
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
    return "dx[n, g*C/groups + c, h, w] = sum of dy[n,o,i,j] * weight[o,c,p,q] over all i,j,p,q with "
           "i*stride + p*dilation - padding = h and j*stride + q*dilation - padding = w, and over all filters "
           "o of group g. Attribute size [H, W] is that of x; the others are those of convolution. dy, weight "
           "and dx have one type; sums are f32 for bf16 data. The optional operand mask (written by fusion, "
           "of the shape and type of dx) is the output of the ReLU before it: dx is 0 where mask <= 0.";
  }
  std::vector<Operand> operands() const override { return {{"dy"}, {"weight"}, {"mask", true}}; }
  std::vector<std::string> attributes() const override {
    return {"stride", "padding", "dilation", "groups", "size"};
  }
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
    in.require(dy[1] == weight[0] && dy[2] == window.rows.windows(size[0]) &&
                   dy[3] == window.columns.windows(size[1]),
               "dy does not follow from the weight and the attribute 'size'");
    const Shape dx{dy[0], weight[1] * groups_attribute(in, attributes, weight[0]), size[0], size[1]};
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
    return "dweight[o,c,p,q] = sum over n,i,j of x[n, g*C/groups + c, i*stride + p*dilation - padding, "
           "j*stride + q*dilation - padding] * dy[n,o,i,j], with g the group of filter o; bias_gradient[o] = "
           "sum over n,i,j of dy[n,o,i,j]. Attribute kernel [KH, KW]; the others are those of convolution. x "
           "and dy have one type; the results have the type of the sums, f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override { return {{"x"}, {"dy"}}; }
  std::vector<std::string> attributes() const override {
    return {"stride", "padding", "dilation", "groups", "kernel"};
  }
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
    in.require(dy[0] == x[0] && dy[2] == window.rows.windows(x[2]) && dy[3] == window.columns.windows(x[3]),
               "dy does not follow from x and the attribute 'kernel'");
    const std::int64_t groups = groups_attribute(in, attributes, dy[1]);
    in.require(x[1] % groups == 0, "attribute 'groups' does not divide the channels of x");
    const DType sum = accumulation(in.dtype(0));
    return {{sum, {dy[1], x[1] / groups, kernel[0], kernel[1]}}, {sum, {dy[1]}}};
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
