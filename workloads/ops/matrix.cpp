// Matrix products, and what stands on matrices.
#include "workloads/ops/list.hpp"

namespace assay {

std::vector<OpWorkload> matrix_op_workloads() {
  OpWorkload linear;
  linear.name = "op/linear";
  linear.description =
      "y = x weight^T + bias, x (M, K), weight (N, K); n and k are m where they are not given";
  linear.dimensions = {{.name = "m"}, {.name = "n", .like = "m"}, {.name = "k", .like = "m"}};
  linear.sizes = {"m4", "m16", "m64", "m256", "m1024", "m2048"};
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
  gemm.description = "y = x weight^T, x (M, K), weight (N, K); n and k are m where they are not given";
  gemm.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {d.at("m"), d.at("k")}, "signal");
    const ValueId weight = b.input("weight", {d.at("n"), d.at("k")}, "weight");
    b.result("y", b.graph().apply("linear", {x, weight, none}, {}, "y")[0]);
  };

  OpWorkload loss;
  loss.name = "op/softmax_cross_entropy";
  loss.description = "the mean loss of (N, C) logits, a scalar; c is 10";
  loss.dimensions = {{.name = "n"}, {.name = "c", .fallback = 10, .least = 2}};
  loss.sizes = {"n1", "n32", "n1024", "n32768", "n1048576"};
  loss.default_size = "n1024";
  loss.build = [](OperandBuilder& b, const Dimensions& d) {
    const std::int64_t n = d.at("n"), c = d.at("c");
    const ValueId logits = b.input("logits", {n, c}, "signal");
    const ValueId labels = b.input("labels", {n}, "below:" + std::to_string(c), DType::i32);
    b.result("loss", b.graph().softmax_cross_entropy(logits, labels, "loss"));
  };
  return {linear, gemm, loss};
}

}  // namespace assay
