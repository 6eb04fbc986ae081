#include "harness/graph/builder.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class Dropout final : public Op {
 public:
  std::string_view name() const override { return "dropout"; }
  std::string_view contract() const override {
    return "y = x * (1 / (1 - rate)) where mask is not 0, and 0 elsewhere: inverted scaling, so that "
           "inference is the identity and has no such node. mask u8, of the shape of x; in graph.json it is "
           "a value of role mask. The backend draws it again in each step and keeps each element "
           "with probability 1 - rate, independently of all others (kernel backends with dropout_mask, a "
           "framework with its own generator), unless a check supplies it. rate in [0, 1). y has the type "
           "of x. The gradient is the same op with the same mask: dx = dropout(dy, mask).";
  }
  std::vector<Operand> operands() const override {
    return {{"x", false, Kind::any}, {"mask", false, Kind::index}};
  }
  std::vector<std::string> attributes() const override { return {"rate"}; }
  std::vector<Result> results() const override { return {{"y"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.require(in.dtype(1) == DType::u8, "mask must be u8");
    in.shaped(1, in.shape(0));
    bounded_attribute(in, attributes, "rate", 0, 1);
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                std::span<const ValueId> output_gradients) const override {
    const ValueId dx = builder.apply("dropout", {output_gradients[0], node.inputs[1]}, node.attributes,
                                     node.name + ".gradient")[0];
    return {dx, none};
  }
};

class DropoutMask final : public Op {
 public:
  std::string_view name() const override { return "dropout_mask"; }
  std::string_view contract() const override {
    return "The mask of one step, u8, 1 where the element is kept and 0 where it is dropped. seed i32 (2) "
           "is a 64-bit seed, low half first. If it is 0, drawn = mask: the mask was supplied. Otherwise "
           "each element is kept with probability 1 - rate to within 2^-16, by a counter-based generator "
           "keyed by the seed, the node's name and the step count in schedule[1], so that no two steps and "
           "no two nodes share a mask and only the counter is stored. The backend chooses the generator.";
  }
  std::vector<Operand> operands() const override {
    return {{"mask", false, Kind::index}, {"schedule", false, Kind::master}, {"seed", false, Kind::index}};
  }
  std::vector<std::string> attributes() const override { return {"rate"}; }
  std::vector<Result> results() const override { return {{"drawn"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.require(in.dtype(0) == DType::u8, "mask must be u8");
    in.shaped(1, {2});
    in.floating(1);
    in.require(in.dtype(2) == DType::i32, "seed must be i32");
    in.shaped(2, {2});
    bounded_attribute(in, attributes, "rate", 0, 1);
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType>, std::span<const TensorType>) const override {
    return 0;
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
};

}  // namespace

const Op& dropout_op() {
  static const Dropout op;
  return op;
}
const Op& dropout_mask_op() {
  static const DropoutMask op;
  return op;
}

}  // namespace assay
