// Functions of one tensor, element by element. A row is an op and its gradient.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/graph/op.hpp"

namespace assay {

// An attribute of a function: one of some words, or a number in [lowest, highest).
struct FunctionAttribute {
  std::string_view name;
  std::vector<std::string_view> words{};
  double lowest = 0, highest = 0;
  double usual = 0;  // that of most networks
};

struct UnaryFunction {
  std::string_view name;     // of the op; that of the gradient is <name>_gradient
  std::string_view formula;  // "y = max(x, 0)"
  std::string_view note;     // more about y; may be empty
  double flops = 0;  // of an element: a multiplication, a comparison and a function such as exp are one each
  enum class Reads { x, y } gradient_reads = Reads::x;  // beside dy
  std::string_view gradient;                            // "dx = dy * y * (1 - y)"
  std::string_view gradient_note;
  double gradient_flops = 0;
  Kink kink = Kink::nowhere;
  std::vector<FunctionAttribute> attributes{};
  // With Kink::choice: the number of the piece of the formula in which x is.
  std::int32_t (*piece)(const Attributes& attributes, double x) = nullptr;
};

// Every function of this build, in the order of the lists.
std::span<const UnaryFunction> unary_functions();
// The attributes with their first word, or their usual number.
Attributes usual_attributes(const UnaryFunction& function);

}  // namespace assay
