#include "tests/ops/case_lists.hpp"

namespace assay::ops {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr Fill R = Fill::ramp;

Attributes along(std::int64_t axis) { return {{"axis", axis}}; }
Attributes range(std::int64_t axis, std::int64_t begin, std::int64_t end) {
  return {{"axis", axis}, {"begin", begin}, {"end", end}};
}
Attributes within(std::int64_t axis, std::int64_t begin, std::int64_t size) {
  return {{"axis", axis}, {"begin", begin}, {"size", size}};
}
Attributes order(Sizes permutation) { return {{"permutation", std::move(permutation)}}; }

}  // namespace

void add_move_cases(std::vector<OpCase>& rows) {
  rows.push_back({"concat", "channels", {{R, {2, 3, 5, 4}}, {R, {2, 6, 5, 4}}}, along(1), 0, true});
  rows.push_back({"concat",
                  "four_of_whole_blocks",
                  {{R, {2, 16, 3, 3}}, {R, {2, 32, 3, 3}}, {R, {2, 16, 3, 3}}, {R, {2, 16, 3, 3}}},
                  along(1),
                  0,
                  true});
  rows.push_back({"concat", "rows", {{R, {3, 7}}, {R, {1, 7}}, {R, {2, 7}}}, along(0), 0, true});
  rows.push_back({"concat", "columns", {{R, {3, 7}}, {R, {3, 1}}}, along(1), 0, true});
  rows.push_back({"concat", "one_operand", {{R, {3, 7}}}, along(1), 0, true});
  rows.push_back({"concat", "single_elements", {{R, {1}}, {R, {1}}}, along(0), 0, true});
  const auto as_bf16 = [&](std::int64_t axis) {
    return Attributes{{"axis", axis}, {"dtype", std::string("bf16")}};
  };
  constexpr Fill inexact = Fill::softmax;
  constexpr double rounding = 0.55;  // to nearest, and that of the operands to f32
  for (const std::int64_t width : {8, 7})
    rows.push_back({"concat",
                    "rows_of_" + std::to_string(width) + "_rounded",
                    {{inexact, {3, width}}, {inexact, {1, width}}, {inexact, {2, width}}},
                    as_bf16(0),
                    rounding});
  rows.push_back({"concat", "columns_rounded", {{inexact, {3, 7}}, {inexact, {3, 2}}}, as_bf16(1), rounding});
  rows.push_back({"concat", "long", {{R, {1023}}, {R, {1025}}}, along(0)});

  rows.push_back({"slice", "channels", {{R, {2, 9, 5, 4}}}, range(1, 2, 5), 0, true});
  rows.push_back({"slice", "whole_blocks", {{R, {2, 48, 3, 3}}}, range(1, 16, 48), 0, true});
  rows.push_back({"slice", "image_rows", {{R, {2, 3, 7, 4}}}, range(2, 1, 6), 0, true});
  rows.push_back({"slice", "samples", {{R, {5, 7}}}, range(0, 3, 4), 0, true});
  rows.push_back({"slice", "last_column", {{R, {4, 37}}}, range(1, 36, 37), 0, true});
  rows.push_back({"slice", "everything", {{R, {3, 7}}}, range(1, 0, 7), 0, true});
  rows.push_back({"slice", "one", {{R, {33}}}, range(0, 17, 18), 0, true});
  rows.push_back({"slice_gradient", "channels", {{R, {2, 3, 5, 4}}}, within(1, 2, 9), 0, true});
  rows.push_back({"slice_gradient", "whole_blocks", {{R, {2, 16, 3, 3}}}, within(1, 16, 48), 0, true});
  rows.push_back({"slice_gradient", "columns", {{R, {4, 7}}}, within(1, 3, 12), 0, true});
  rows.push_back({"slice_gradient", "samples", {{R, {2, 7}}}, within(0, 0, 5), 0, true});

  rows.push_back({"transpose", "matrix", {{R, {7, 19}}}, order({1, 0}), 0, true});
  rows.push_back({"transpose", "nchw_to_nhwc", {{R, {2, 3, 5, 4}}}, order({0, 2, 3, 1}), 0, true});
  rows.push_back({"transpose", "reversed", {{R, {2, 3, 5, 4}}}, order({3, 2, 1, 0}), 0, true});
  rows.push_back({"transpose", "identity", {{R, {3, 5}}}, order({0, 1}), 0, true});
  rows.push_back({"transpose", "cycle", {{R, {3, 5, 7}}}, order({2, 0, 1}), 0, true});
  rows.push_back({"transpose", "vector", {{R, {37}}}, order({0}), 0, true});
  rows.push_back({"transpose", "large", {{R, {130, 67}}}, order({1, 0})});
}

}  // namespace assay::ops
