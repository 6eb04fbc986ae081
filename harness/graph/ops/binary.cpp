// Functions of two tensors, element by element, with NumPy's broadcasting.
#include <fmt/format.h>

#include <memory>

#include "harness/graph/broadcast.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

// Adds the sum of a gradient over what was repeated of `operand`; no node if nothing was.
ValueId summed(GraphBuilder& builder, ValueId gradient, ValueId operand, const std::string& name) {
  const Shape from = builder.graph().value(gradient).type.shape;
  const Shape to = builder.graph().value(operand).type.shape;
  if (from == to) return gradient;
  std::vector<std::int64_t> axes;
  for (std::size_t d = 0; d < from.size(); ++d) {
    const std::size_t missing = from.size() - to.size();
    if (d < missing || (to[d - missing] == 1 && from[d] != 1)) axes.push_back(static_cast<std::int64_t>(d));
  }
  ValueId sum = builder.apply("reduce", {gradient}, {{"kind", std::string("sum")}, {"axes", axes}}, name)[0];
  if (builder.graph().value(sum).type.shape != to) {
    sum = builder.apply("reshape", {sum}, {{"shape", to}}, name + "_shaped")[0];
  }
  return sum;
}

ValueId negative(GraphBuilder& builder, ValueId x, const std::string& name) {
  const std::string dtype(to_string(builder.graph().value(x).type.dtype));
  const ValueId minus = builder.apply("constant", {}, {{"value", -1.0}, {"shape", Shape{}}, {"dtype", dtype}},
                                      name + "_sign")[0];
  return builder.apply("multiply", {x, minus}, {}, name + "_negative")[0];
}

struct BinaryFunction {
  std::string_view name, formula, note;
  // Of a and b, before the sums over what was repeated.
  std::pair<ValueId, ValueId> (*gradients)(GraphBuilder& builder, const Node& node, ValueId dy);
  bool may_be_fused = false;  // with an activation, by the pass
};

std::pair<ValueId, ValueId> of_sum(GraphBuilder&, const Node&, ValueId dy) { return {dy, dy}; }

std::pair<ValueId, ValueId> of_difference(GraphBuilder& builder, const Node& node, ValueId dy) {
  return {dy, negative(builder, dy, node.name + ".gradient_b")};
}

std::pair<ValueId, ValueId> of_product(GraphBuilder& builder, const Node& node, ValueId dy) {
  return {builder.apply("multiply", {dy, node.inputs[1]}, {}, node.name + ".gradient_a")[0],
          builder.apply("multiply", {dy, node.inputs[0]}, {}, node.name + ".gradient_b")[0]};
}

std::pair<ValueId, ValueId> of_quotient(GraphBuilder& builder, const Node& node, ValueId dy) {
  const ValueId da = builder.apply("divide", {dy, node.inputs[1]}, {}, node.name + ".gradient_a")[0];
  const ValueId scaled = builder.apply("multiply", {da, node.outputs[0]}, {}, node.name + ".scaled")[0];
  return {da, negative(builder, scaled, node.name + ".gradient_b")};
}

constexpr BinaryFunction functions[] = {
    {"add", "y = a + b",
     "for a residual connection, a vector for each position, or two gradients of one value. Attribute "
     "activation \"relu\" (written by fusion): y is max(y, 0). ",
     of_sum, true},
    {"subtract", "y = a - b", "", of_difference},
    {"multiply", "y = a * b", "", of_product},
    {"divide", "y = a / b", "infinite or a NaN where b is 0. ", of_quotient},
};

class Binary final : public Op {
 public:
  explicit Binary(const BinaryFunction& function)
      : function_(function),
        contract_(
            fmt::format("{}, elementwise{}{}{}The shapes broadcast as in NumPy: they are aligned at the last "
                        "dimension, and a dimension of 1, or one that is missing, is repeated. a, b and y "
                        "have one type.",
                        function.formula, function.note.empty() ? "" : ": ", function.note,
                        function.note.empty() ? ". " : "")) {}

  std::string_view name() const override { return function_.name; }
  std::string_view contract() const override { return contract_; }
  std::vector<Operand> operands() const override {
    return {{"a", false, Kind::any}, {"b", false, Kind::any}};
  }
  std::vector<std::string> attributes() const override {
    return function_.may_be_fused ? std::vector<std::string>{"activation"} : std::vector<std::string>{};
  }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.same_dtype(1, 0);
    const std::optional<Shape> shape = broadcast_shape(in.shape(0), in.shape(1));
    in.require(shape.has_value(), "the dimensions, from the last one, must agree or be 1");
    if (function_.may_be_fused) check_activation(in, attributes);
    return {{in.dtype(0), *shape}};
  }
  double flops(const Attributes&, std::span<const TensorType>,
               std::span<const TensorType> outputs) const override {
    return static_cast<double>(outputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}, {0, 1}}; }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    reject_fused_gradient(*this, node);
    const auto [da, db] = function_.gradients(builder, node, output_gradients[0]);
    return {summed(builder, da, node.inputs[0], node.name + ".sum_a"),
            summed(builder, db, node.inputs[1], node.name + ".sum_b")};
  }

 private:
  const BinaryFunction& function_;
  std::string contract_;
};

}  // namespace

std::span<const Op* const> binary_ops() {
  static const Binary ops[] = {Binary(functions[0]), Binary(functions[1]), Binary(functions[2]),
                               Binary(functions[3])};
  static const Op* const all[] = {&ops[0], &ops[1], &ops[2], &ops[3]};
  return all;
}

}  // namespace assay
