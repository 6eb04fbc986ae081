#include <string>

#include "harness/graph/ops/optimizer_rule.hpp"
#include "harness/graph/ops/registry.hpp"

namespace assay {
namespace {

class Adam final : public Op {
 public:
  std::string_view name() const override { return "adam"; }
  std::string_view contract() const override {
    static const std::string text = optimizer_text(
        "m' = beta1 m + (1 - beta1) g; v' = beta2 v + (1 - beta2) g^2; parameter' = parameter - lr (m' /"
        " (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + epsilon): epsilon is added after the root and the"
        " bias correction (Kingma & Ba 2015, algorithm 1). Attribute decoupled (default: false): AdamW, whose"
        " g is the gradient, and lr * weight_decay * parameter is also subtracted from the parameter.");
    return text;
  }
  std::vector<Operand> operands() const override { return optimizer_operands({"m", "v"}); }
  std::vector<std::string> attributes() const override {
    std::vector<std::string> names = adam_attributes();
    names.emplace_back("decoupled");
    return names;
  }
  std::vector<Result> results() const override { return optimizer_results({"m", "v"}); }
  int repeats() const override { return 4; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_adam_attributes(in, attributes);
    attributes.get_or("decoupled", false);
    return infer_optimizer(*this, inputs, present);
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return adam_flops * optimized_elements(*this, inputs);
  }
  std::vector<InPlace> in_place() const override { return {{0, 1}, {1, 3}, {2, 4}}; }
};

}  // namespace

const Op& adam_op() {
  static const Adam op;
  return op;
}

}  // namespace assay
