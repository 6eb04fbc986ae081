// One layer of long short-term memory over whole sequences, and its gradient.
#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

// Sigmoid and tanh count ten each, the rest of a unit's step is sums and products.
constexpr double unit_flops = 60;
constexpr double unit_gradient_flops = 30;

// The sizes, from operands x, weight, recurrent_weight in this order.
struct LstmSizes {
  std::int64_t samples, steps, features, units;

  explicit LstmSizes(std::span<const TensorType> inputs)
      : samples(inputs[0].shape[0]),
        steps(inputs[0].shape[1]),
        features(inputs[0].shape[2]),
        units(inputs[2].shape[1]) {}
  double unit_steps() const {
    return static_cast<double>(samples) * static_cast<double>(steps) * static_cast<double>(units);
  }
  // FLOPs of one product of all gates with x and with h.
  double product_of_x() const { return 8 * unit_steps() * static_cast<double>(features); }
  double product_of_h() const { return 8 * unit_steps() * static_cast<double>(units); }
};

void check_weights(const Operands& in) {
  in.rank(0, 3);
  in.rank(1, 2);
  in.rank(2, 2);
  in.floating(0);
  in.same_dtype(1, 0);
  in.same_dtype(2, 0);
  const std::int64_t units = in.shape(2)[1];
  in.require(in.shape(1)[0] == 4 * units && in.shape(2)[0] == 4 * units,
             "both weights must have four rows for each of the units, the columns of recurrent_weight");
  in.require(in.shape(1)[1] == in.shape(0)[2], "inner dimensions differ");
}

Shape result_shape(const Attributes& attributes, const LstmSizes& sizes) {
  if (attributes.get<bool>("last")) return {sizes.samples, sizes.units};
  return {sizes.samples, sizes.steps, sizes.units};
}

class Lstm final : public Op {
 public:
  std::string_view name() const override { return "lstm"; }
  std::string_view contract() const override {
    return "One layer, one direction. For each step t from 0, with h(-1) = c(-1) = 0: (i, f, g, o) = weight "
           "x(t) + recurrent_weight h(t-1) + bias, four blocks of H rows in this order (input, forget, "
           "candidate, output); c(t) = sigmoid(f) c(t-1) + sigmoid(i) tanh(g); h(t) = sigmoid(o) "
           "tanh(c(t)). x (N, T, I), weight (4H, I), recurrent_weight (4H, H), bias (4H): there is one "
           "bias, and no peephole. Every step counts: padding is a normal input. Attribute last: y is "
           "h(T-1) (N, H); otherwise y is all h (N, T, H). x, the weights, y and h as an operand of the "
           "product have one type; the bias, the sums, the gates and c are f32 for bf16 data. The gradient "
           "reads the saved reserve.";
  }
  std::vector<Operand> operands() const override {
    return {{"x"}, {"weight"}, {"recurrent_weight"}, {"bias", false, Kind::master}};
  }
  std::vector<std::string> attributes() const override { return {"last"}; }
  std::vector<Result> results() const override { return {{"y"}, {"reserve", true, true, true}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_weights(in);
    in.shaped(3, {in.shape(1)[0]});
    in.accumulates(3, 0);
    return {{in.dtype(0), result_shape(attributes, LstmSizes(inputs))}, {}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    const LstmSizes sizes(inputs);
    return sizes.product_of_x() + sizes.product_of_h() + unit_flops * sizes.unit_steps();
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    if (node.outputs[1] == none) return Op::gradient(builder, node, output_gradients);
    const std::vector<ValueId> gradients =
        builder.apply("lstm_gradient",
                      {node.inputs[0], node.inputs[1], node.inputs[2], node.outputs[1], output_gradients[0]},
                      node.attributes, node.name + ".gradient", {true, true, true, true});
    return {gradients[3], gradients[0], gradients[1], gradients[2]};
  }
};

class LstmGradient final : public Op {
 public:
  std::string_view name() const override { return "lstm_gradient"; }
  std::string_view contract() const override {
    return "The gradient of lstm through all steps, with its attribute and operands; reserve is the saved "
           "result of that node, dy has the shape of its y. dweight (4H, I), drecurrent_weight (4H, H) and "
           "dbias (4H) have the type of the sums, f32 for bf16 data; dx (N, T, I) has the type of x. In "
           "bf16 the gates' gradients are bf16 as operands of the products.";
  }
  std::vector<Operand> operands() const override {
    return {{"x"}, {"weight"}, {"recurrent_weight"}, {"reserve", false, Kind::index}, {"dy"}};
  }
  std::vector<std::string> attributes() const override { return {"last"}; }
  std::vector<Result> results() const override {
    return {{"dweight"}, {"drecurrent_weight"}, {"dbias"}, {"dx", true}};
  }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_weights(in);
    in.shaped(4, result_shape(attributes, LstmSizes(inputs)));
    in.same_dtype(4, 0);
    const DType sum = accumulation(in.dtype(0));
    return {{sum, in.shape(1)}, {sum, in.shape(2)}, {sum, {in.shape(1)[0]}}, inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType> outputs) const override {
    const LstmSizes sizes(inputs);
    const bool wants_dx = outputs.size() > 3 && !outputs[3].shape.empty();
    return (wants_dx ? 2 : 1) * sizes.product_of_x() + 2 * sizes.product_of_h() +
           unit_gradient_flops * sizes.unit_steps();
  }
};

}  // namespace

const Op& lstm_op() {
  static const Lstm op;
  return op;
}
const Op& lstm_gradient_op() {
  static const LstmGradient op;
  return op;
}

}  // namespace assay
