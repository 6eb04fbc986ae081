// Clipping of gradients by their norm.
#include <limits>

#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class GlobalNorm final : public Op {
 public:
  std::string_view name() const override { return "global_norm"; }
  std::string_view contract() const override {
    return "norm = the square root of the sum of the squares of all elements of all operands, a scalar: the "
           "L2 norm of all gradients together. The operands are of any shape and of one type, which is that "
           "of the norm: f32, or f64 under fp64. The backend chooses the order of the sum.";
  }
  std::vector<Operand> operands() const override { return {{"gradient", false, Kind::master}}; }
  std::vector<Result> results() const override { return {{"norm"}}; }
  int repeats() const override { return 1; }
  bool results_repeat() const override { return false; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    for (std::size_t i = 1; i < inputs.size(); ++i) in.same_dtype(i, 0);
    return {{in.dtype(0), {}}};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    double elements = 0;
    for (const TensorType& type : inputs) elements += static_cast<double>(type.elements());
    return 2 * elements;
  }
};

class Clip final : public Op {
 public:
  std::string_view name() const override { return "clip"; }
  std::string_view contract() const override {
    return "clipped = gradient * min(1, limit / (norm + 1e-6)): PyTorch's clip_grad_norm_. gradient of any "
           "shape, norm a scalar as global_norm makes it, both of one type; the attribute limit is above 0. "
           "If the norm is a NaN, so is the result.";
  }
  std::vector<Operand> operands() const override {
    return {{"gradient", false, Kind::master}, {"norm", false, Kind::master}};
  }
  std::vector<std::string> attributes() const override { return {"limit"}; }
  std::vector<Result> results() const override { return {{"clipped"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    in.shaped(1, {});
    in.same_dtype(1, 0);
    bounded_attribute(in, attributes, "limit", std::numeric_limits<double>::min(),
                      std::numeric_limits<float>::max());
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
};

}  // namespace

const Op& global_norm_op() {
  static const GlobalNorm op;
  return op;
}
const Op& clip_op() {
  static const Clip op;
  return op;
}

}  // namespace assay
