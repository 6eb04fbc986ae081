#include "tests/ops/case_lists.hpp"

namespace assay::ops {
namespace {

constexpr Fill I = Fill::integers, R = Fill::ramp, P = Fill::positive;

Attributes transposed(bool a, bool b) { return {{"transpose_a", a}, {"transpose_b", b}}; }

}  // namespace

void add_product_cases(std::vector<OpCase>& rows) {
  rows.push_back({"dot", "one", {{P, {1}}, {P, {1}}}, {}, 1, true});
  rows.push_back({"dot", "odd", {{I, {37}}, {I, {37}}}, {}, 0, true});
  rows.push_back({"dot", "ramp", {{R, {1023}}, {P, {1023}}}, {}, 32});
  rows.push_back({"dot", "many_blocks", {{I, {100003}}, {I, {100003}}}, {}, 0});

  rows.push_back({"matmul", "plain", {{I, {7, 19}}, {I, {19, 10}}}, transposed(false, false), 0, true});
  rows.push_back(
      {"matmul", "first_transposed", {{I, {19, 7}}, {I, {19, 10}}}, transposed(true, false), 0, true});
  rows.push_back(
      {"matmul", "second_transposed", {{I, {7, 19}}, {I, {10, 19}}}, transposed(false, true), 0, true});
  rows.push_back(
      {"matmul", "both_transposed", {{I, {19, 7}}, {I, {10, 19}}}, transposed(true, true), 0, true});
  rows.push_back({"matmul", "one", {{P, {1, 1}}, {P, {1, 1}}}, transposed(false, true), 1, true});
  rows.push_back(
      {"matmul", "row_by_column", {{P, {1, 300}}, {I, {300, 1}}}, transposed(false, false), 0, true});
  rows.push_back(
      {"matmul", "column_by_row", {{I, {33, 1}}, {I, {1, 17}}}, transposed(false, false), 0, true});
  rows.push_back({"matmul", "square", {{I, {64, 64}}, {I, {64, 64}}}, transposed(false, false)});
  rows.push_back({"matmul", "batch", {{I, {3, 5, 9}}, {I, {3, 9, 4}}}, transposed(false, false), 0, true});
  rows.push_back({"matmul",
                  "batch_transposed",
                  {{I, {2, 3, 9, 5}}, {I, {2, 3, 4, 9}}},
                  transposed(true, true),
                  0,
                  true});
}

}  // namespace assay::ops
