#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

constexpr std::int64_t max_size = 1 << 16;  // of a window
constexpr double power_flops = 4;           // the scale, its power, a product

const std::vector<std::string>& names() {
  static const std::vector<std::string> all{"size", "alpha", "beta", "bias"};
  return all;
}

void check(const Operands& in, const Attributes& attributes) {
  in.rank(0, 4);
  in.floating(0);
  const auto size = attributes.get<std::int64_t>("size");
  in.require(size >= 1 && size <= max_size && size % 2 == 1,
             "attribute 'size' must be an odd number from 1 to 65535");
  bounded_attribute(in, attributes, "alpha", 0, 1e6);
  bounded_attribute(in, attributes, "beta", 0, 64);
  in.require(bounded_attribute(in, attributes, "bias", 0, 1e6) > 0, "attribute 'bias' must be above 0");
}

double flops_of(const Attributes& attributes, const TensorType& x) {
  return (2 * static_cast<double>(attributes.get<std::int64_t>("size")) + power_flops) *
         static_cast<double>(x.elements());
}

class LocalResponseNorm final : public Op {
 public:
  std::string_view name() const override { return "local_response_norm"; }
  std::string_view contract() const override {
    return "y[n,c,h,w] = x[n,c,h,w] / s[n,c,h,w]^beta with s = bias + alpha / size * sum of x[n,k,h,w]^2 over "
           "the channels k from c - (size - 1) / 2 to c + (size - 1) / 2 that exist (Krizhevsky et al. 2012, "
           "whose alpha is that of PyTorch, Caffe and ONNX divided by size). size is odd, and is the divisor "
           "at the first and last channels, too. x (N, C, H, W); y has the type of x; sums and powers are f32 "
           "for bf16 data.";
  }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<std::string> attributes() const override { return names(); }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    check(Operands(*this, inputs, present), attributes);
    return {inputs[0]};
  }
  double flops(const Attributes& attributes, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return flops_of(attributes, inputs[0]);
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    return builder.apply("local_response_norm_gradient", {node.inputs[0], output_gradients[0]},
                         node.attributes, node.name + ".gradient");
  }
};

class LocalResponseNormGradient final : public Op {
 public:
  std::string_view name() const override { return "local_response_norm_gradient"; }
  std::string_view contract() const override {
    return "dx[c] = dy[c] * s[c]^-beta - 2 * alpha * beta / size * x[c] * sum of dy[k] * x[k] * s[k]^(-beta - "
           "1) over the channels k of local_response_norm, at each n, h and w, with its s. x, dy and dx have "
           "one shape and type; sums and powers are f32 for bf16 data.";
  }
  std::vector<Operand> operands() const override {
    return {{"x", false, Kind::any}, {"dy", false, Kind::any}};
  }
  std::vector<std::string> attributes() const override { return names(); }
  std::vector<Result> results() const override { return {{"dx"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check(in, attributes);
    in.same_type(1, 0);
    return {inputs[0]};
  }
  double flops(const Attributes& attributes, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return 2 * flops_of(attributes, inputs[0]);
  }
};

}  // namespace

const Op& local_response_norm_op() {
  static const LocalResponseNorm op;
  return op;
}
const Op& local_response_norm_gradient_op() {
  static const LocalResponseNormGradient op;
  return op;
}

}  // namespace assay
