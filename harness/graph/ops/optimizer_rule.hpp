// The shape rule of the optimizer ops: a schedule, then groups of tensors of one type each.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "harness/graph/ops/rules.hpp"

namespace assay {

// The contract of an optimizer: its formulas, then the text that all optimizers share.
std::string optimizer_text(std::string_view formulas);

// Operands: schedule, parameter, gradient and one for each moment. Results: the new parameter and moments.
std::vector<Operand> optimizer_operands(std::initializer_list<const char*> moments, bool optional = false);
std::vector<Result> optimizer_results(std::initializer_list<const char*> moments, bool optional = false);
// Operands: schedule (2), then `repeats()` tensors in each group: parameter, gradient, moments. Results of
// each group: the new parameter and the new moments. Throws GraphError.
std::vector<TensorType> infer_optimizer(const Op& op, std::span<const TensorType> inputs,
                                        const std::vector<bool>& present);
// The sum of the elements of all parameters.
double optimized_elements(const Op& op, std::span<const TensorType> inputs);

// Shared by adam and lazy_adam: the names of their attributes, their bounds, and the operations for each
// element.
std::vector<std::string> adam_attributes();
void check_adam_attributes(const Operands& in, const Attributes& attributes);
inline constexpr double adam_flops = 14;

}  // namespace assay
