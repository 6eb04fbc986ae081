#include <string>

#include "harness/graph/ops/optimizer_rule.hpp"
#include "harness/graph/ops/registry.hpp"

namespace assay {
namespace {

class LazyAdam final : public Op {
 public:
  std::string_view name() const override { return "lazy_adam"; }
  std::string_view contract() const override {
    return "Adam on the rows that a row-sparse gradient touches: row touched[k] of parameter, m and v is "
           "updated by adam with the gradient values[k] and adam's attributes. Every other row, including "
           "its moments, keeps its bits; adam would decay the moments and move the parameter. The bias "
           "correction uses the step t of the schedule for every row, however often that row was touched; "
           "weight_decay acts only on touched rows. schedule (2), parameter, m and v (V, D), values (K, D), "
           "touched i32 (K) of different rows or -1, as embedding_row_gradient makes them.";
  }
  std::vector<Operand> operands() const override {
    return {{"schedule", false, Kind::master}, {"parameter", false, Kind::master},
            {"values", false, Kind::master},   {"touched", false, Kind::index},
            {"m", false, Kind::master},        {"v", false, Kind::master}};
  }
  std::vector<std::string> attributes() const override { return adam_attributes(); }
  std::vector<Result> results() const override { return {{"new_parameter"}, {"new_m"}, {"new_v"}}; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    check_adam_attributes(in, attributes);
    in.floating(0);
    in.shaped(0, {2});
    in.rank(1, 2);
    in.rank(2, 2);
    in.same_dtype(1, 0);
    in.same_dtype(2, 0);
    in.require(in.shape(2)[1] == in.shape(1)[1], "the rows of values and parameter differ in length");
    in.require(in.dtype(3) == DType::i32, "touched must be i32");
    in.shaped(3, {in.shape(2)[0]});
    in.same_type(4, 1);
    in.same_type(5, 1);
    return {inputs[1], inputs[1], inputs[1]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return adam_flops * static_cast<double>(inputs[2].elements());
  }
  std::vector<InPlace> in_place() const override { return {{0, 1}, {1, 4}, {2, 5}}; }
};

}  // namespace

const Op& lazy_adam_op() {
  static const LazyAdam op;
  return op;
}

}  // namespace assay
