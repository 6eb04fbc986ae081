#include "harness/graph/ops/unary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "harness/core/text.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {

std::span<const UnaryFunction> unary_functions() {
  using enum UnaryFunction::Reads;
  static const std::vector<UnaryFunction> functions{
      {.name = "relu",
       .formula = "y = max(x, 0)",
       .note = "",
       .flops = 1,
       .gradient_reads = y,
       .gradient = "dx = dy where y > 0, else 0",
       .gradient_note = "the gradient at 0 is 0",
       .gradient_flops = 1,
       .kink = Kink::at_zero},
      {.name = "sigmoid",
       .formula = "y = 1 / (1 + e^-x)",
       .note = "0 if e^-x overflows and 1 if it underflows, never a NaN",
       .flops = 3,
       .gradient_reads = y,
       .gradient = "dx = dy * y * (1 - y)",
       .gradient_note = "",
       .gradient_flops = 3},
      {.name = "tanh",
       .formula = "y = tanh(x)",
       .note = "",
       .flops = 1,
       .gradient_reads = y,
       .gradient = "dx = dy * (1 - y^2)",
       .gradient_note = "",
       .gradient_flops = 3},
      {.name = "softplus",
       .formula = "y = log(1 + e^x)",
       .note = "computed as max(x, 0) + log(1 + e^-|x|), so that no x overflows; some frameworks call it "
               "softrelu. It has no threshold above which y is x (PyTorch has one at 20, where both are the "
               "same float)",
       .flops = 4,
       .gradient_reads = x,
       .gradient = "dx = dy / (1 + e^-x)",
       .gradient_note = "the rounded y would be too inexact",
       .gradient_flops = 4},
      {.name = "softsign",
       .formula = "y = x / (1 + |x|)",
       .note = "",
       .flops = 2,
       .gradient_reads = x,
       .gradient = "dx = dy / (1 + |x|)^2",
       .gradient_note = "",
       .gradient_flops = 3},
      {.name = "gelu",
       .formula = "y = x * 0.5 * (1 + erf(x / sqrt(2))) with approximate \"none\"",
       .note = "with \"tanh\", y = x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), which differs "
               "by up to 0.0005: frameworks have different defaults",
       .flops = 5,
       .gradient_reads = x,
       .gradient = "dx = dy * (0.5 * (1 + erf(x / sqrt(2))) + x * e^(-x^2 / 2) / sqrt(2 pi))",
       .gradient_note =
           "with \"tanh\", dx = dy * 0.5 * (1 + t + x * (1 - t^2) * sqrt(2 / pi) * (1 + 0.134145 "
           "* x^2)), where t = tanh(u) and u = sqrt(2 / pi) * (x + 0.044715 * x^3)",
       .gradient_flops = 10,
       .attributes = {{.name = "approximate", .words = {"none", "tanh"}}}},
      {.name = "silu",
       .formula = "y = x / (1 + e^-x)",
       .note = "some frameworks call it swish. Where e^-x overflows, y is -0, never a NaN",
       .flops = 4,
       .gradient_reads = x,
       .gradient = "dx = dy * s * (1 + x * (1 - s)) with s = 1 / (1 + e^-x)",
       .gradient_note = "",
       .gradient_flops = 7},
      {.name = "leaky_relu",
       .formula = "y = x where x > 0, else slope * x",
       .note = "",
       .flops = 2,
       .gradient = "dx = dy where x > 0, else slope * dy",
       .gradient_note = "",
       .gradient_flops = 2,
       .kink = Kink::at_zero,
       .attributes = {{.name = "slope", .lowest = 0, .highest = 1, .usual = 0.01}}},
      {.name = "elu",
       .formula = "y = x where x > 0, else alpha * (e^x - 1)",
       .note = "",
       .flops = 4,
       .gradient = "dx = dy where x > 0, else dy * alpha * e^x",
       .gradient_note = "",
       .gradient_flops = 4,
       .kink = Kink::at_zero,
       .attributes = {{.name = "alpha", .lowest = 0, .highest = 1e6, .usual = 1}}},
      {.name = "selu",
       .formula = "y = s * x where x > 0, else s * a * (e^x - 1)",
       .note = "with s = 1.0507009873554805 and a = 1.6732632423543772, as Klambauer et al. 2017 have them",
       .flops = 5,
       .gradient = "dx = dy * s where x > 0, else dy * s * a * e^x",
       .gradient_note = "s and a are those of selu",
       .gradient_flops = 5,
       .kink = Kink::at_zero},
      {.name = "clamp",
       .formula = "y = min(max(x, least), most)",
       .note = "with 0 and 6 some frameworks call it ReLU6. least must be less than most",
       .flops = 2,
       .gradient = "dx = dy where least < x < most, else 0",
       .gradient_note = "at least and most themselves some frameworks let dy pass",
       .gradient_flops = 2,
       .kink = Kink::choice,
       .attributes = {{.name = "least", .lowest = -1e30, .highest = 1e30, .usual = 0},
                      {.name = "most", .lowest = -1e30, .highest = 1e30, .usual = 6}},
       .piece = [](const Attributes& with,
                   double at) { return at <= with.number("least") ? 0
                                       : at < with.number("most") ? 1
                                                                  : 2; }},
      {.name = "hard_sigmoid",
       .formula = "y = min(max(alpha * x + beta, 0), 1)",
       .note = "frameworks have different alphas: 1 / 6, or 0.2 as ONNX and MXNet",
       .flops = 4,
       .gradient = "dx = dy * alpha where 0 < alpha * x + beta < 1, else 0",
       .gradient_note = "",
       .gradient_flops = 5,
       .kink = Kink::choice,
       .attributes = {{.name = "alpha", .lowest = 1e-6, .highest = 1e6, .usual = 1.0 / 6},
                      {.name = "beta", .lowest = -1e6, .highest = 1e6, .usual = 0.5}},
       .piece =
           [](const Attributes& with, double at) {
             const double inner = with.number("alpha") * at + with.number("beta");
             return inner <= 0 ? 0 : inner < 1 ? 1 : 2;
           }},
      {.name = "hard_swish",
       .formula = "y = x * min(max(x / 6 + 1 / 2, 0), 1)",
       .note = "some frameworks call it hard SiLU",
       .flops = 5,
       .gradient = "dx = 0 where x < -3, dy where x > 3, else dy * (x / 3 + 1 / 2)",
       .gradient_note = "",
       .gradient_flops = 5,
       .kink = Kink::choice,
       .piece = [](const Attributes&, double at) { return at <= -3 ? 0
                                                          : at < 3 ? 1
                                                                   : 2; }},
  };
  return functions;
}

Attributes usual_attributes(const UnaryFunction& function) {
  Attributes usual;
  for (const FunctionAttribute& attribute : function.attributes) {
    const std::string name(attribute.name);
    if (attribute.words.empty()) {
      usual.set(name, attribute.usual);
    } else {
      usual.set(name, std::string(attribute.words.front()));
    }
  }
  return usual;
}

namespace {

std::string with_note(std::string_view formula, std::string_view middle, std::string_view note) {
  return fmt::format("{}{}{}{}. ", formula, middle, note.empty() ? "" : ": ", note);
}

// The shape rule of a function and of its gradient: operands and result have one shape and one type.
class Unary : public Op {
 public:
  explicit Unary(const UnaryFunction& function, std::string contract)
      : function_(function), contract_(std::move(contract)) {}

  std::string_view contract() const override { return contract_; }
  std::vector<std::string> attributes() const override {
    std::vector<std::string> names;
    for (const FunctionAttribute& attribute : function_.attributes) names.emplace_back(attribute.name);
    return names;
  }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    for (std::size_t i = 1; i < inputs.size(); ++i) in.same_type(i, 0);
    for (const FunctionAttribute& attribute : function_.attributes) check(in, attributes, attribute);
    if (attributes.has("least"))
      in.require(attributes.number("least") < attributes.number("most"), "least must be less than most");
    return {inputs[0]};
  }

 protected:
  const UnaryFunction& function_;

 private:
  static void check(const Operands& in, const Attributes& attributes, const FunctionAttribute& attribute) {
    if (attribute.words.empty()) {
      bounded_attribute(in, attributes, attribute.name, attribute.lowest, attribute.highest);
      return;
    }
    const auto& word = attributes.get<std::string>(attribute.name);
    if (std::ranges::find(attribute.words, word) == attribute.words.end()) {
      in.reject(
          fmt::format("attribute '{}' must be '{}'", attribute.name, fmt::join(attribute.words, "' or '")));
    }
  }

  std::string contract_;
};

class Function final : public Unary {
 public:
  explicit Function(const UnaryFunction& function)
      : Unary(function,
              with_note(function.formula, ", of any shape", function.note) + "y has the type of x.") {}
  std::string_view name() const override { return function_.name; }
  std::vector<Operand> operands() const override { return {{"x", false, Kind::any}}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return function_.flops * static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  Kink kink(const Attributes&) const override { return function_.kink; }
  std::vector<std::int32_t> choices(const Attributes& attributes, const Shape&,
                                    std::span<const double> x) const override {
    std::vector<std::int32_t> pieces(x.size());
    std::ranges::transform(x, pieces.begin(), [&](double at) { return function_.piece(attributes, at); });
    return pieces;
  }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    const bool reads_y = function_.gradient_reads == UnaryFunction::Reads::y;
    return builder.apply(fmt::format("{}_gradient", function_.name),
                         {reads_y ? node.outputs[0] : node.inputs[0], output_gradients[0]}, node.attributes,
                         node.name + ".gradient");
  }
};

class FunctionGradient final : public Unary {
 public:
  explicit FunctionGradient(const UnaryFunction& function)
      : Unary(function, with_note(function.gradient, "", function.gradient_note) +
                            (function.gradient_reads == UnaryFunction::Reads::y
                                 ? fmt::format("y is the output of the {}, not its input. y", function.name)
                                 : fmt::format("x is the input of the {}. x", function.name)) +
                            ", dy and dx have one shape and type."),
        name_(fmt::format("{}_gradient", function.name)) {}
  std::string_view name() const override { return name_; }
  std::vector<Operand> operands() const override {
    const bool reads_y = function_.gradient_reads == UnaryFunction::Reads::y;
    return {{reads_y ? "y" : "x", false, Kind::any}, {"dy", false, Kind::any}};
  }
  std::vector<Result> results() const override { return {{"dx"}}; }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return function_.gradient_flops * static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 1}, {0, 0}}; }

 private:
  std::string name_;
};

}  // namespace

std::span<const Op* const> unary_ops() {
  static const auto made = [] {
    std::vector<std::unique_ptr<const Op>> ops;
    for (const UnaryFunction& function : unary_functions()) {
      ops.push_back(std::make_unique<Function>(function));
      ops.push_back(std::make_unique<FunctionGradient>(function));
    }
    return ops;
  }();
  static const auto all = [] {
    std::vector<const Op*> ops;
    for (const auto& op : made) ops.push_back(op.get());
    return ops;
  }();
  return all;
}

}  // namespace assay
