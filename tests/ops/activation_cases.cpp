#include "tests/ops/case_lists.hpp"

namespace assay::ops {
namespace {

constexpr Fill I = Fill::integers, R = Fill::ramp, P = Fill::positive, W = Fill::wide;

// Shapes of one element, odd, longer than any vector register and than a block of a loop.
void activation(std::vector<OpCase>& rows, const std::string& op, double tolerance) {
  rows.push_back({op, "images", {{R, {2, 6, 5, 5}}}, {}, tolerance, true});
  rows.push_back({op, "one", {{P, {1}}}, {}, tolerance, true});
  rows.push_back({op, "odd", {{R, {3, 7, 11}}}, {}, tolerance, true});
  rows.push_back({op, "long", {{R, {5, 1021}}}, {}, tolerance});
  rows.push_back({op, "far_from_zero", {{W, {2, 129}}}, {}, tolerance});
}

// The first operand of a gradient is x, or a y that the activation can give.
void gradient(std::vector<OpCase>& rows, const std::string& op, Fill first, double tolerance) {
  rows.push_back({op, "images", {{first, {2, 6, 5, 5}}, {I, {2, 6, 5, 5}}}, {}, tolerance});
  rows.push_back({op, "one", {{R, {1}}, {P, {1}}}, {}, tolerance});
  rows.push_back({op, "long", {{first, {5, 1021}}, {R, {5, 1021}}}, {}, tolerance});
}

}  // namespace

void add_activation_cases(std::vector<OpCase>& rows) {
  activation(rows, "sigmoid", 4);
  activation(rows, "tanh", 4);
  activation(rows, "softplus", 4);
  activation(rows, "softsign", 2);
  gradient(rows, "sigmoid_gradient", Fill::softmax, 4);
  gradient(rows, "tanh_gradient", Fill::softmax, 4);
  gradient(rows, "softplus_gradient", R, 4);
  gradient(rows, "softsign_gradient", R, 4);
  rows.push_back({"softplus_gradient", "far_from_zero", {{W, {2, 129}}, {I, {2, 129}}}, {}, 4});
}

}  // namespace assay::ops
