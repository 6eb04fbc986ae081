#include "harness/graph/ops/optimizer_rule.hpp"

#include <fmt/format.h>

#include <limits>

namespace assay {

std::string optimizer_text(std::string_view formulas) {
  return fmt::format(
      "{} schedule (2) holds the learning rate lr and the step t (1 for the first) and is read from memory "
      "at each step. weight_decay is the coupled L2 form, g = gradient + weight_decay * parameter, unless "
      "the text above says otherwise. The "
      "operands after the schedule and the results may repeat: one node may update many tensors. All "
      "tensors of a group have one shape and the type of the schedule.",
      formulas);
}

std::vector<Operand> optimizer_operands(std::initializer_list<const char*> moments, bool optional) {
  std::vector<Operand> operands;
  for (const char* name : {"schedule", "parameter", "gradient"})
    operands.push_back({name, false, Kind::master});
  for (const char* name : moments) operands.push_back({name, optional, Kind::master});
  return operands;
}

std::vector<Result> optimizer_results(std::initializer_list<const char*> moments, bool optional) {
  std::vector<Result> results{{"new_parameter"}};
  for (const char* name : moments) results.push_back({std::string("new_") + name, optional});
  return results;
}

std::vector<TensorType> infer_optimizer(const Op& op, std::span<const TensorType> inputs,
                                        const std::vector<bool>& present) {
  const Operands in(op, inputs, present);
  const auto group = static_cast<std::size_t>(op.repeats());
  in.floating(0);
  in.shaped(0, {2});
  std::vector<TensorType> results;
  for (std::size_t first = 1; first < inputs.size(); first += group) {
    in.floating(first);
    in.same_dtype(first, 0);
    for (std::size_t i = first + 1; i < first + group; ++i) {
      if (in.has(i)) in.same_type(i, first);
    }
    results.insert(results.end(), op.results().size(), inputs[first]);
  }
  return results;
}

double optimized_elements(const Op& op, std::span<const TensorType> inputs) {
  double elements = 0;
  for (std::size_t i = 1; i < inputs.size(); i += static_cast<std::size_t>(op.repeats())) {
    elements += static_cast<double>(inputs[i].elements());
  }
  return elements;
}

std::vector<std::string> adam_attributes() { return {"beta1", "beta2", "epsilon", "weight_decay"}; }

void check_adam_attributes(const Operands& in, const Attributes& attributes) {
  bounded_attribute(in, attributes, "beta1", 0, 1);
  bounded_attribute(in, attributes, "beta2", 0, 1);
  bounded_attribute(in, attributes, "epsilon", 0, 1);
  bounded_attribute(in, attributes, "weight_decay", 0, std::numeric_limits<float>::max());
}

}  // namespace assay
