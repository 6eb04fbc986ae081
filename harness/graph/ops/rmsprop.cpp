#include <limits>
#include <string>

#include "harness/graph/ops/optimizer_rule.hpp"
#include "harness/graph/ops/registry.hpp"

namespace assay {
namespace {

constexpr double rmsprop_flops = 9;

class Rmsprop final : public Op {
 public:
  std::string_view name() const override { return "rmsprop"; }
  std::string_view contract() const override {
    static const std::string text = optimizer_text(
        "s' = decay s + (1 - decay) g^2; parameter' = parameter - lr g / (sqrt(s') + epsilon): epsilon is"
        " added after the root (Keras adds it before); no momentum, not centred. s is the operand "
        "square.");
    return text;
  }
  std::vector<Operand> operands() const override { return optimizer_operands({"square"}); }
  std::vector<std::string> attributes() const override { return {"decay", "epsilon", "weight_decay"}; }
  std::vector<Result> results() const override { return optimizer_results({"square"}); }
  int repeats() const override { return 3; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    bounded_attribute(in, attributes, "decay", 0, 1);
    bounded_attribute(in, attributes, "epsilon", 0, 1);
    bounded_attribute(in, attributes, "weight_decay", 0, std::numeric_limits<float>::max());
    return infer_optimizer(*this, inputs, present);
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return rmsprop_flops * optimized_elements(*this, inputs);
  }
  std::vector<InPlace> in_place() const override { return {{0, 1}, {1, 3}}; }
};

}  // namespace

const Op& rmsprop_op() {
  static const Rmsprop op;
  return op;
}

}  // namespace assay
