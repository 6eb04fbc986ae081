// Products.
#include "workloads/ops/list.hpp"

namespace assay {

std::vector<OpWorkload> matrix_op_workloads() {
  OpWorkload linear;
  linear.name = "op/linear";
  linear.description = "y = x weight^T + bias, x (M, K), weight (N, K); n and k default to m";
  linear.dimensions = {{.name = "m"}, {.name = "n", .like = "m"}, {.name = "k", .like = "m"}};
  linear.sizes = matrix_sweep();
  // Into the MLP of MiniLM: 128 and 4096 tokens.
  linear.sizes.insert(linear.sizes.end(), {"m128n1536k384", "m4096n1536k384"});
  linear.default_size = "m256";
  linear.build = [](OperandBuilder& b, const Dimensions& d) {
    const std::int64_t m = d.at("m"), n = d.at("n"), k = d.at("k");
    const ValueId x = b.input("x", {m, k}, "signal");
    const ValueId weight = b.input("weight", {n, k}, "weight");
    const ValueId bias = b.input("bias", {n}, "signal");
    b.result("y", b.graph().apply("linear", {x, weight, bias}, {}, "y")[0]);
  };

  OpWorkload gemm = linear;
  gemm.name = "op/gemm";
  gemm.sizes = matrix_sweep();
  gemm.description = "y = x weight^T, x (M, K), weight (N, K); n and k default to m";
  gemm.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {d.at("m"), d.at("k")}, "signal");
    const ValueId weight = b.input("weight", {d.at("n"), d.at("k")}, "weight");
    b.result("y", b.graph().apply("linear", {x, weight, none}, {}, "y")[0]);
  };

  OpWorkload dot;
  dot.name = "op/dot";
  dot.description = "y = the sum of a[i] b[i], a scalar; both (N)";
  dot.dimensions = {{.name = ""}};
  dot.sizes = element_sweep();
  dot.default_size = "65536";
  dot.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId left = b.input("a", {d.at("")}, "signal");
    const ValueId right = b.input("b", {d.at("")}, "signal");
    b.result("y", b.graph().apply("dot", {left, right}, {}, "y")[0]);
  };
  return {linear, gemm, dot};
}

}  // namespace assay
