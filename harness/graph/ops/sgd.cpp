#include <limits>
#include <string>

#include "harness/graph/ops/optimizer_rule.hpp"
#include "harness/graph/ops/registry.hpp"

namespace assay {
namespace {

constexpr double sgd_flops = 4;

class Sgd final : public Op {
 public:
  std::string_view name() const override { return "sgd"; }
  std::string_view contract() const override {
    static const std::string text = optimizer_text(
        "v' = momentum v + g; parameter' = parameter - lr v': the learning rate is outside of the velocity; "
        "no dampening, no Nesterov. v is the operand momentum; it and its result are absent if the "
        "attribute momentum is 0, and then parameter' = parameter - lr g.");
    return text;
  }
  std::vector<Operand> operands() const override { return optimizer_operands({"momentum"}, true); }
  std::vector<std::string> attributes() const override { return {"momentum", "weight_decay"}; }
  std::vector<Result> results() const override { return optimizer_results({"momentum"}, true); }
  int repeats() const override { return 3; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    const double momentum = bounded_attribute(in, attributes, "momentum", 0, 1);
    bounded_attribute(in, attributes, "weight_decay", 0, std::numeric_limits<float>::max());
    for (std::size_t i = 3; i < inputs.size(); i += 3) {
      in.require(in.has(i) == (momentum != 0),
                 "the operand momentum must be given exactly if the attribute momentum is not 0");
    }
    return infer_optimizer(*this, inputs, present);
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return sgd_flops * optimized_elements(*this, inputs);
  }
  std::vector<InPlace> in_place() const override { return {{0, 1}, {1, 3}}; }
};

}  // namespace

const Op& sgd_op() {
  static const Sgd op;
  return op;
}

}  // namespace assay
