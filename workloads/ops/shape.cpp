// What moves elements and computes nothing.
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
  return {flatten};
}

}  // namespace assay
