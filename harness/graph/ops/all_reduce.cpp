// The mean of gradients over the ranks, in two parts, so that it overlaps the nodes between them.
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

class AllReduceStart final : public Op {
 public:
  std::string_view name() const override { return "all_reduce_start"; }
  std::string_view contract() const override {
    return "Begins to add up the gradients over all ranks, which start the same buckets in the same order. The "
           "operands are of any shape and of one type: f32, or f64 under fp64. bucket is opaque: it holds their "
           "sums once all_reduce_wait has run. Until then nothing else may write the operands. With one rank, "
           "the sums are the operands.";
  }
  std::vector<Operand> operands() const override { return {{"gradient", false, Kind::master}}; }
  std::vector<Result> results() const override { return {{"bucket", false, false, true}}; }
  int repeats() const override { return 1; }
  bool results_repeat() const override { return false; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    for (std::size_t i = 1; i < inputs.size(); ++i) in.same_dtype(i, 0);
    return {TensorType{}};
  }
  // One addition of each element: those of the other ranks are their own work.
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    double elements = 0;
    for (const TensorType& type : inputs) elements += static_cast<double>(type.elements());
    return elements;
  }
};

class AllReduceWait final : public Op {
 public:
  std::string_view name() const override { return "all_reduce_wait"; }
  std::string_view contract() const override {
    return "Waits for a bucket of all_reduce_start, whose gradients are the other operands in the same order. "
           "mean = the sum of the gradient over all ranks / the number of ranks, with the same bits on every "
           "rank; one mean for each gradient, of its type. With one rank, the mean is the gradient.";
  }
  std::vector<Operand> operands() const override {
    return {{"bucket", false, Kind::index}, {"gradient", false, Kind::master}};
  }
  std::vector<Result> results() const override { return {{"mean"}}; }
  int repeats() const override { return 1; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(1);
    for (std::size_t i = 2; i < inputs.size(); ++i) in.same_dtype(i, 1);
    return {inputs.begin() + 1, inputs.end()};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    double elements = 0;
    for (const TensorType& type : inputs.subspan(1)) elements += static_cast<double>(type.elements());
    return elements;
  }
  std::vector<InPlace> in_place() const override { return {{0, 1}}; }
};

}  // namespace

const Op& all_reduce_start_op() {
  static const AllReduceStart op;
  return op;
}
const Op& all_reduce_wait_op() {
  static const AllReduceWait op;
  return op;
}

}  // namespace assay
