#include <limits>

#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

// Statistics take two operations per element, normalising four.
constexpr double training_flops = 6;
constexpr double inference_flops = 2;
constexpr double batch_norm_gradient_flops = 10;

class BatchNorm final : public Op {
 public:
  std::string_view name() const override { return "batch_norm"; }
  std::string_view contract() const override {
    return "y = (x - mean[c]) * inverse_std[c] * weight[c] + bias[c], x (N, C, H, W), with inverse_std = 1 "
           "/ sqrt(variance + epsilon). With attribute training, mean and variance are those of the batch "
           "over N, H and W, the variance biased (divided by N*H*W); they are saved as mean and "
           "inverse_std; and new_running_mean = momentum * running_mean + (1 - momentum) * mean, "
           "new_running_variance likewise from the same biased variance (PyTorch's own momentum is 1 - "
           "momentum, and it uses the unbiased variance there). Without attribute training, mean and "
           "variance are running_mean and running_variance, and y is the only result. y has the type of x; "
           "everything else is f32 for bf16 data. Written by fusion: the optional operand residual, of the "
           "type of x, is added to y; then, with attribute activation \"relu\", y is max(y, 0). The result mask "
           "says where that y is above 0.";
  }
  std::vector<Operand> operands() const override {
    return {{"x"},
            {"weight", false, Kind::master},
            {"bias", false, Kind::master},
            {"running_mean", false, Kind::master},
            {"running_variance", false, Kind::master},
            {"residual", true, Kind::storage, true}};
  }
  std::vector<std::string> attributes() const override {
    return {"epsilon", "momentum", "training", "activation"};
  }
  std::vector<Result> results() const override {
    return {{"y"},
            {"mean", true, true},
            {"inverse_std", true, true},
            {"new_running_mean", true},
            {"new_running_variance", true},
            {"mask", true, true, true, true}};
  }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.rank(0, 4);
    in.floating(0);
    for (std::size_t i = 1; i <= 4; ++i) {
      in.shaped(i, {in.shape(0)[1]});
      in.accumulates(i, 0);
    }
    if (in.has(5)) in.same_type(5, 0);
    bounded_attribute(in, attributes, "epsilon", std::numeric_limits<double>::min(), 1);
    bounded_attribute(in, attributes, "momentum", 0, 1);
    check_activation(in, attributes);
    if (!attributes.get<bool>("training")) return {inputs[0]};
    return {inputs[0], inputs[1], inputs[1], inputs[3], inputs[4], {}};
  }
  double flops(const Attributes& attributes, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return (attributes.get<bool>("training") ? training_flops : inference_flops) *
           static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}, {0, 5}, {3, 3}, {4, 4}}; }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    reject_fused_gradient(*this, node);
    if (node.inputs[5] != none)
      throw GraphError("[batch_norm] a residual is fused into node '" + node.name + "': it has no gradient");
    if (!node.attributes.get<bool>("training")) return Op::gradient(builder, node, output_gradients);
    for (std::size_t i = 1; i < output_gradients.size(); ++i) {
      if (output_gradients[i] != none)
        throw GraphError("[batch_norm] only y has a gradient (node '" + node.name + "')");
    }
    const std::vector<ValueId> gradients =
        builder.apply("batch_norm_gradient",
                      {node.inputs[0], node.inputs[1], node.outputs[1], node.outputs[2], output_gradients[0]},
                      {}, node.name + ".gradient");
    return {gradients[0], gradients[1], gradients[2], none, none, none};
  }
};

class BatchNormGradient final : public Op {
 public:
  std::string_view name() const override { return "batch_norm_gradient"; }
  std::string_view contract() const override {
    return "The gradient of batch_norm in training. With h = (x - mean) * inverse_std and M = N*H*W: dbias "
           "= sum of dy, dweight = sum of dy * h, dx = weight * inverse_std * (dy - (dbias + h * dweight) / "
           "M), sums over N, H and W. x, dy and dx (N, C, H, W) have one type; everything else is (C), f32 "
           "for bf16 data. Written by fusion, with all sums in f32 for bf16 data: first the optional "
           "operand addend is added to dy; then dy is set to 0 where the ReLU after the batch norm gave 0. "
           "That is where operand activated (the ReLU's output) is not above 0 or, with operand bias "
           "instead, where h * weight + bias is not above 0, or where operand mask says so, which batch_norm "
           "saved; only one of the three operands is given. dy_total is the resulting dy. Addend, activated "
           "and dy_total have the type of x.";
  }
  std::vector<Operand> operands() const override {
    return {{"x"},
            {"weight", false, Kind::master},
            {"mean", false, Kind::master},
            {"inverse_std", false, Kind::master},
            {"dy"},
            {"bias", true, Kind::master, true},
            {"activated", true, Kind::storage, true},
            {"addend", true, Kind::storage, true},
            {"mask", true, Kind::index, true}};
  }
  std::vector<Result> results() const override {
    return {{"dx"}, {"dweight"}, {"dbias"}, {"dy_total", true, false, false, true}};
  }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.rank(0, 4);
    in.floating(0);
    for (const std::size_t i : {1U, 2U, 3U, 5U}) {
      if (!in.has(i)) continue;
      in.shaped(i, {in.shape(0)[1]});
      in.accumulates(i, 0);
    }
    for (const std::size_t i : {4U, 6U, 7U}) {
      if (in.has(i)) in.same_type(i, 0);
    }
    in.require(in.has(5) + in.has(6) + in.has(8) <= 1, "bias, activated and mask exclude one another");
    return {inputs[0], inputs[1], inputs[1], inputs[0]};
  }
  // Each of these operands is read completely before the first dx is written.
  std::vector<InPlace> in_place() const override { return {{0, 0}, {0, 4}, {0, 7}, {3, 4}, {3, 7}, {3, 6}}; }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return batch_norm_gradient_flops * static_cast<double>(inputs[0].elements());
  }
};

}  // namespace

const Op& batch_norm_op() {
  static const BatchNorm op;
  return op;
}
const Op& batch_norm_gradient_op() {
  static const BatchNormGradient op;
  return op;
}

}  // namespace assay
