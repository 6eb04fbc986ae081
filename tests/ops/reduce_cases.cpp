#include "tests/ops/case_lists.hpp"

namespace assay::ops {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr Fill I = Fill::integers, R = Fill::ramp, P = Fill::positive;
constexpr OpCase::Operand absent{Fill::absent, {}};

Attributes over(const char* kind, Sizes axes) {
  return {{"kind", std::string(kind)}, {"axes", std::move(axes)}};
}
Attributes spread(const char* kind, Sizes axes, Sizes shape) {
  Attributes attributes = over(kind, std::move(axes));
  attributes.set("shape", std::move(shape));
  return attributes;
}

void reductions(std::vector<OpCase>& rows) {
  for (const char* kind : {"sum", "mean", "max"}) {
    const std::string k = std::string("_") + kind;
    rows.push_back({"reduce", "rows" + k, {{R, {5, 61}}}, over(kind, {1}), 8, true});
    rows.push_back({"reduce", "columns" + k, {{R, {37, 9}}}, over(kind, {0}), 8, true});
    rows.push_back({"reduce", "all" + k, {{R, {3, 4, 5}}}, over(kind, {0, 1, 2}), 8, true});
    rows.push_back({"reduce", "apart" + k, {{R, {2, 3, 4, 7}}}, over(kind, {1, 3}), 8, true});
    rows.push_back({"reduce", "apart_kept_run" + k, {{R, {2, 3, 4, 7}}}, over(kind, {0, 2}), 8, true});
    rows.push_back({"reduce", "one" + k, {{P, {1}}}, over(kind, {0}), 1, true});
    rows.push_back({"reduce", "size_one" + k, {{P, {3, 1, 5}}}, over(kind, {1}), 1, true});
    rows.push_back({"reduce", "long_rows" + k, {{R, {3, 4999}}}, over(kind, {1}), 32});
    rows.push_back({"reduce", "long_columns" + k, {{P, {5, 4999}}}, over(kind, {0}), 8});
    rows.push_back({"reduce", "one_long_column" + k, {{R, {4999, 3}}}, over(kind, {0}), 32});
  }
  // The global average pool: blocked and other channel counts.
  rows.push_back({"reduce", "image_mean", {{R, {2, 16, 7, 7}}}, over("mean", {2, 3}), 8, true});
  rows.push_back({"reduce", "odd_image_mean", {{R, {2, 5, 3, 8}}}, over("mean", {2, 3}), 8, true});
  rows.push_back({"reduce", "image_max", {{R, {2, 16, 7, 7}}}, over("max", {2, 3}), 0, true});
  rows.push_back({"reduce_gradient", "rows", {{I, {5}}, absent, absent}, spread("sum", {1}, {5, 61})});
  rows.push_back({"reduce_gradient", "columns", {{I, {9}}, absent, absent}, spread("mean", {0}, {37, 9}), 1});
  rows.push_back({"reduce_gradient", "all", {{P, {}}, absent, absent}, spread("mean", {0, 1}, {37, 99}), 1});
  rows.push_back(
      {"reduce_gradient", "apart", {{R, {2, 4}}, absent, absent}, spread("sum", {1, 3}, {2, 3, 4, 7})});
  rows.push_back(
      {"reduce_gradient", "image", {{R, {2, 16}}, absent, absent}, spread("mean", {2, 3}, {2, 16, 7, 7}), 2});
  rows.push_back({"reduce_gradient",
                  "odd_image",
                  {{R, {2, 5}}, absent, absent},
                  spread("mean", {2, 3}, {2, 5, 3, 8}),
                  2});
  rows.push_back({"reduce_gradient",
                  "shared_maximum",
                  {{P, {5}}, {I, {5, 61}}, {Fill::top, {5}}},
                  spread("max", {1}, {5, 61}),
                  2});
  rows.push_back({"reduce_gradient",
                  "shared_maximum_of_columns",
                  {{P, {9}}, {I, {37, 9}}, {Fill::top, {9}}},
                  spread("max", {0}, {37, 9}),
                  2});
}

void norms(std::vector<OpCase>& rows) {
  const auto over_axes = [](Sizes axes) { return Attributes{{"axes", std::move(axes)}, {"epsilon", 1e-12}}; };
  rows.push_back({"normalise", "matrix", {{R, {13, 9}}}, over_axes({0, 1}), 8, true});
  rows.push_back({"normalise", "rows", {{R, {5, 37}}}, over_axes({1}), 8, true});
  rows.push_back({"normalise", "columns", {{R, {37, 5}}}, over_axes({0}), 8, true});
  rows.push_back({"normalise", "apart", {{R, {2, 3, 4, 7}}}, over_axes({0, 2}), 8, true});
  rows.push_back({"normalise", "long", {{R, {3, 4999}}}, over_axes({1}), 16});
  // Above every norm: x / epsilon.
  rows.push_back({"normalise", "bounded", {{R, {4, 1}}}, {{"axes", Sizes{1}}, {"epsilon", 0.999}}, 8});
  rows.push_back(
      {"normalise_gradient", "rows", {{Fill::softmax, {5, 37}}, {P, {5}}, {R, {5, 37}}}, over_axes({1}), 8});
  rows.push_back({"normalise_gradient",
                  "columns",
                  {{Fill::softmax, {37, 5}}, {P, {5}}, {R, {37, 5}}},
                  over_axes({0}),
                  8});
  rows.push_back({"normalise_gradient",
                  "some_bounded",
                  {{Fill::softmax, {40, 7}}, {P, {40}}, {R, {40, 7}}},
                  {{"axes", Sizes{1}}, {"epsilon", 0.9}},
                  8});
}

void softmaxes(std::vector<OpCase>& rows) {
  rows.push_back({"softmax", "rows", {{R, {8, 10}}}, {}, 8, true});
  rows.push_back({"softmax", "one_column", {{R, {3, 1}}}, {}, 1});
  rows.push_back({"softmax", "vector", {{R, {37}}}, {}, 8, true});
  rows.push_back({"softmax", "images", {{R, {2, 3, 4, 5}}}, {}, 8, true});
  rows.push_back({"softmax", "long_rows", {{R, {3, 1023}}}, {}, 16});
  rows.push_back({"softmax", "far_from_zero", {{Fill::wide, {3, 61}}}, {}, 32});
  rows.push_back({"softmax_gradient", "rows", {{Fill::softmax, {8, 10}}, {R, {8, 10}}}, {}, 8});
  rows.push_back({"softmax_gradient", "vector", {{Fill::softmax, {37}}, {R, {37}}}, {}, 8});
  rows.push_back({"softmax_gradient", "long_rows", {{Fill::softmax, {3, 1023}}, {R, {3, 1023}}}, {}, 16});
}

}  // namespace

void add_reduce_cases(std::vector<OpCase>& rows) {
  reductions(rows);
  norms(rows);
  softmaxes(rows);
}

}  // namespace assay::ops
