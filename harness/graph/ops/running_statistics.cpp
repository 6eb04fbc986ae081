#include <limits>

#include "harness/graph/ops/registry.hpp"
#include "harness/graph/ops/rules.hpp"

namespace assay {
namespace {

constexpr double running_statistics_flops = 9;

class RunningStatistics final : public Op {
 public:
  std::string_view name() const override { return "running_statistics"; }
  std::string_view contract() const override {
    return "new_running_mean = momentum * running_mean + (1 - momentum) * mean, and new_running_variance "
           "likewise from the variance max(1 / inverse_std^2 - epsilon, 0): what batch_norm does in training "
           "with the mean and inverse_std that it saves. Written by fusion. All operands and results repeat: "
           "one node may update those of many batch norms. All tensors of a group have one shape and type.";
  }
  std::vector<Operand> operands() const override {
    return {{"mean", false, Kind::master},
            {"inverse_std", false, Kind::master},
            {"running_mean", false, Kind::master},
            {"running_variance", false, Kind::master}};
  }
  std::vector<std::string> attributes() const override { return {"epsilon", "momentum"}; }
  std::vector<Result> results() const override { return {{"new_running_mean"}, {"new_running_variance"}}; }
  int repeats() const override { return 4; }
  std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    bounded_attribute(in, attributes, "epsilon", std::numeric_limits<double>::min(), 1);
    bounded_attribute(in, attributes, "momentum", 0, 1);
    std::vector<TensorType> results;
    for (std::size_t first = 0; first < inputs.size(); first += 4) {
      in.floating(first);
      for (std::size_t i = first + 1; i < first + 4; ++i) in.same_type(i, first);
      results.insert(results.end(), 2, inputs[first]);
    }
    return results;
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    double elements = 0;
    for (std::size_t i = 0; i < inputs.size(); i += 4) elements += static_cast<double>(inputs[i].elements());
    return running_statistics_flops * elements;
  }
  std::vector<InPlace> in_place() const override { return {{0, 2}, {1, 3}}; }
};

}  // namespace

const Op& running_statistics_op() {
  static const RunningStatistics op;
  return op;
}

}  // namespace assay
