// What moves elements and computes nothing, creation among it.
#include "workloads/ops/list.hpp"

namespace assay {

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
  from_list.description = "a vector of N elements from a list of boxed numbers, half of them whole";
  from_list.build = [](OperandBuilder& b, const Dimensions& d) {
    b.result("y", b.graph().apply("from_list", {b.input("numbers", {d.at(""), 2}, "number")}, {}, "y")[0]);
  };
  return {flatten, from_array, from_list};
}

}  // namespace assay
