// Ops that move elements and compute nothing, and creation.
#include <array>

#include "workloads/ops/list.hpp"

namespace assay {
namespace {

OpWorkload transpose() {
  OpWorkload row;
  row.name = "op/transpose";
  row.description = "x (M, N) to (N, M), moved; n defaults to m";
  row.dimensions = {{.name = "m"}, {.name = "n", .like = "m"}};
  row.sizes = matrix_sweep();
  row.default_size = "m256";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {d.at("m"), d.at("n")}, "signal");
    b.result("y", b.graph().apply("transpose", {x}, {{"permutation", Shape{1, 0}}}, "y")[0]);
  };
  return row;
}

OpWorkload flatten_matrix() {
  OpWorkload row;
  row.name = "op/flatten_matrix";
  row.description = "x (M, N) to a vector (M N); a backend may move nothing. n defaults to m";
  row.dimensions = {{.name = "m"}, {.name = "n", .like = "m"}};
  row.sizes = matrix_sweep();
  row.default_size = "m256";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {d.at("m"), d.at("n")}, "signal");
    b.result("y", b.graph().reshape(x, {d.at("m") * d.at("n")}, "y"));
  };
  return row;
}

OpWorkload concat() {
  OpWorkload row;
  row.name = "op/concat";
  row.description =
      "a (N, C, H, W) and b (N, K, H, W), one after the other along the channels. By default 64 of 28 x 28 "
      "each";
  row.dimensions = {{.name = "n"},
                    {.name = "c", .fallback = 64},
                    {.name = "k", .like = "c"},
                    {.name = "h", .fallback = 28},
                    {.name = "w", .like = "h"}};
  row.sizes = {"n1c1h4", "n1c1", "n1", "n8", "n64", "n256"};
  row.default_size = "n8";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId left = b.input("a", {d.at("n"), d.at("c"), d.at("h"), d.at("w")}, "signal");
    const ValueId right = b.input("b", {d.at("n"), d.at("k"), d.at("h"), d.at("w")}, "signal");
    const std::array both{left, right};
    b.result("y", b.graph().concat(both, 1, "y"));
  };
  return row;
}

}  // namespace

std::vector<OpWorkload> shape_op_workloads() {
  OpWorkload flatten;
  flatten.name = "op/flatten";
  flatten.description =
      "x (N, C, H, W) to (N, C H W); a backend may move nothing. By default 64 channels of 28 x 28";
  flatten.dimensions = {{.name = "n"},
                        {.name = "c", .fallback = 64},
                        {.name = "h", .fallback = 28},
                        {.name = "w", .like = "h"}};
  flatten.sizes = {"n1c1h4", "n1c1", "n1", "n8", "n64", "n256"};
  flatten.default_size = "n8";
  flatten.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {d.at("n"), d.at("c"), d.at("h"), d.at("w")}, "signal");
    b.result("y", b.graph().flatten(x, "y"));
  };

  OpWorkload from_array;
  from_array.name = "op/from_array";
  from_array.description = "a vector of N elements from an array: a copy into the backend's own memory";
  from_array.dimensions = {{.name = ""}};
  from_array.sizes = element_sweep();
  from_array.default_size = "65536";
  from_array.differentiable = false;
  from_array.build = [](OperandBuilder& b, const Dimensions& d) {
    b.result("y", b.graph().apply("from_array", {b.input("x", {d.at("")}, "signal")}, {}, "y")[0]);
  };

  OpWorkload from_list = from_array;
  from_list.name = "op/from_list";
  from_list.description = "a vector of N elements from a list of boxed fractions";
  from_list.build = [](OperandBuilder& b, const Dimensions& d) {
    b.result("y", b.graph().apply("from_list", {b.input("numbers", {d.at(""), 2}, "fraction")}, {}, "y")[0]);
  };
  OpWorkload from_rows = from_array;
  from_rows.name = "op/from_rows";
  from_rows.description = "a matrix (1, N) from a list that holds one array of N elements";
  from_rows.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {1, d.at("")}, "signal");
    b.result("y", b.graph().apply("from_array", {x}, {{"in_list", true}}, "y")[0]);
  };
  return {flatten, flatten_matrix(), transpose(), concat(), from_array, from_list, from_rows};
}

}  // namespace assay
