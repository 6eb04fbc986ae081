// Functions of one tensor, element by element. A row is an op and its gradient.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/graph/op.hpp"

namespace assay {

// An attribute of a function: one of some words, or a number.
struct FunctionAttribute {
  std::string_view name;
  std::vector<std::string_view> words;
  double lowest = 0, highest = 0;  // of a number without words
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
};

// Every function of this build, in the order of the lists.
std::span<const UnaryFunction> unary_functions();

}  // namespace assay
