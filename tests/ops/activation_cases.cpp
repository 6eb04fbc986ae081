#include <map>

#include "harness/graph/ops/unary.hpp"
#include "tests/ops/case_lists.hpp"

namespace assay::ops {
namespace {

constexpr Fill I = Fill::integers, R = Fill::ramp, P = Fill::positive, W = Fill::wide;

// In units of the result's epsilon, where they are not those of most functions.
struct Tolerance {
  double value = 4, gradient = 8;
};
const std::map<std::string_view, Tolerance> tolerances{
    {"relu", {0, 0}}, {"sigmoid", {4, 4}}, {"tanh", {4, 4}}, {"softplus", {4, 4}}, {"softsign", {2, 4}}};

const std::map<std::string_view, Attributes> unusual{{"leaky_relu", {{"slope", 0.25}}},
                                                     {"elu", {{"alpha", 0.4}}},
                                                     {"clamp", {{"least", -0.7}, {"most", 1.8}}},
                                                     {"hard_sigmoid", {{"alpha", 0.2}, {"beta", 0.45}}}};

// Shapes of one element, odd, longer than any vector register and than a block of a loop.
void value(std::vector<OpCase>& rows, const std::string& op, const std::string& suffix,
           const Attributes& attributes, double tolerance) {
  rows.push_back({op, "images" + suffix, {{R, {2, 6, 5, 5}}}, attributes, tolerance, true});
  rows.push_back({op, "one" + suffix, {{P, {1}}}, attributes, tolerance, true});
  rows.push_back({op, "odd" + suffix, {{R, {3, 7, 11}}}, attributes, tolerance, true});
  rows.push_back({op, "long" + suffix, {{R, {5, 1021}}}, attributes, tolerance});
  rows.push_back({op, "far_from_zero" + suffix, {{W, {2, 129}}}, attributes, tolerance});
}

// The first operand is x, or a y that the function can give.
void gradient(std::vector<OpCase>& rows, const UnaryFunction& function, const std::string& suffix,
              const Attributes& attributes, double tolerance) {
  const std::string op = std::string(function.name) + "_gradient";
  const bool reads_y = function.gradient_reads == UnaryFunction::Reads::y;
  const Fill first = !reads_y ? R : function.kink == Kink::at_zero ? I : Fill::softmax;
  rows.push_back({op, "images" + suffix, {{first, {2, 6, 5, 5}}, {I, {2, 6, 5, 5}}}, attributes, tolerance});
  rows.push_back({op,
                  "one" + suffix,
                  {{reads_y || function.kink == Kink::choice ? P : R, {1}}, {P, {1}}},
                  attributes,
                  tolerance});
  rows.push_back({op, "long" + suffix, {{first, {5, 1021}}, {R, {5, 1021}}}, attributes, tolerance});
  if (!reads_y && function.kink != Kink::choice)  // there most gradients are 0
    rows.push_back({op, "far_from_zero" + suffix, {{W, {2, 129}}, {I, {2, 129}}}, attributes, tolerance});
}

}  // namespace

void add_activation_cases(std::vector<OpCase>& rows) {
  for (const UnaryFunction& function : unary_functions()) {
    const auto found = tolerances.find(function.name);
    const Tolerance tolerance = found == tolerances.end() ? Tolerance() : found->second;
    const auto add = [&](const std::string& suffix, const Attributes& attributes) {
      value(rows, std::string(function.name), suffix, attributes, tolerance.value);
      gradient(rows, function, suffix, attributes, tolerance.gradient);
    };
    const Attributes usual = usual_attributes(function);
    const bool has_words = !function.attributes.empty() && !function.attributes.front().words.empty();
    if (!has_words) add("", usual);
    if (const auto other = unusual.find(function.name); other != unusual.end())
      add("_unusual", other->second);
    for (const FunctionAttribute& attribute : function.attributes) {
      for (const std::string_view word : attribute.words)
        add("_" + std::string(word), {{std::string(attribute.name), std::string(word)}});
    }
  }
}

}  // namespace assay::ops
