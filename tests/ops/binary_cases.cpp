// Functions of two tensors, with every way in which an operand can be repeated.
#include "tests/ops/case_lists.hpp"

namespace assay::ops {
namespace {

constexpr Fill I = Fill::integers, R = Fill::ramp, P = Fill::positive;

struct Form {
  const char* name;
  Shape a, b;
  bool differentiable = true;
};
const Form forms[] = {
    {"images", {2, 6, 5, 5}, {2, 6, 5, 5}},
    {"one", {1}, {1}},
    {"odd", {3, 7}, {3, 7}},
    {"long", {4099}, {4099}, false},
    {"by_a_scalar", {3, 5, 7}, {}},
    {"scalars", {}, {}},
    {"of_a_scalar", {}, {3, 5, 7}},
    {"vector_to_each", {3, 5, 7}, {7}},
    {"positions", {3, 5, 8}, {5, 8}},
    {"positions_wide", {4, 65, 192}, {65, 192}, false},
    {"small_matrix", {2, 4}, {4}},
    {"to_a_larger", {4}, {2, 4}},
    {"column_to_each", {3, 5}, {3, 1}},
    {"row_and_column", {4, 1}, {1, 5}},
    {"column_and_vector", {4, 1}, {5}},
    {"channels", {2, 6, 5, 5}, {6, 1, 1}},
    {"channels_of_images", {2, 6, 5, 5}, {1, 6, 1, 1}},
    {"gates", {2, 6, 5, 5}, {2, 6, 1, 1}},
    {"middle", {3, 1, 7}, {3, 5, 7}},
    {"both_in_turn", {2, 1, 5, 1}, {1, 3, 1, 4}},
    {"ones", {1, 1, 3}, {3}},
};

// Sums of integers are exact.
void of_all_forms(std::vector<OpCase>& rows, const std::string& op, Fill a, Fill b, double tolerance) {
  for (const Form& form : forms)
    rows.push_back({op, form.name, {{a, form.a}, {b, form.b}}, {}, tolerance, form.differentiable});
}

}  // namespace

void add_binary_cases(std::vector<OpCase>& rows) {
  of_all_forms(rows, "add", I, I, 0);
  of_all_forms(rows, "subtract", I, I, 0);
  of_all_forms(rows, "multiply", R, P, 1);
  of_all_forms(rows, "divide", R, P, 2);
  const Attributes relu{{"activation", std::string("relu")}};
  rows.push_back({"add", "relu", {{I, {2, 6, 5, 5}}, {I, {2, 6, 5, 5}}}, relu});
  rows.push_back({"add", "positions_relu", {{I, {3, 5, 8}}, {I, {5, 8}}}, relu, 0});
  rows.push_back({"add", "gates_relu", {{I, {2, 6, 5, 5}}, {I, {2, 6, 1, 1}}}, relu, 0});
  rows.push_back({"multiply", "rounded", {{R, {5, 1021}}, {R, {5, 1021}}}, {}, 1});
}

}  // namespace assay::ops
