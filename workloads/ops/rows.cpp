// Ops over the rows of a matrix, or over the whole matrix.
#include "workloads/ops/list.hpp"

namespace assay {
namespace {

OpWorkload of_matrix() {
  OpWorkload row;
  row.dimensions = {{.name = "m"}, {.name = "n", .like = "m"}};
  row.sizes = matrix_sweep();
  row.default_size = "m256";
  return row;
}

OpWorkload normalise() {
  OpWorkload row = of_matrix();
  row.name = "op/normalise";
  row.description = "y = x / the Euclidean norm of all of x (M, N), its Frobenius norm; n defaults to m";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {d.at("m"), d.at("n")}, "signal");
    const Attributes whole{{"axes", Shape{0, 1}}, {"epsilon", 1e-12}};
    b.result("y", b.graph().apply("normalise", {x}, whole, "y")[0]);
  };
  return row;
}

OpWorkload reduce(const std::string& kind) {
  OpWorkload row = of_matrix();
  row.name = "op/reduce_" + kind;
  row.description = "the " + kind + " of each row of x (M, N): y (M); n defaults to m";
  row.build = [kind](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {d.at("m"), d.at("n")}, "signal");
    b.result("y", b.graph().apply("reduce", {x}, {{"kind", kind}, {"axes", Shape{1}}}, "y")[0]);
  };
  return row;
}

OpWorkload softmax() {
  OpWorkload row;
  row.name = "op/softmax";
  row.description = "of each row of x (N, C); c is 1000";
  row.dimensions = {{.name = "n"}, {.name = "c", .fallback = 1000}};
  row.sizes = {"n1c10", "n32c10", "n32", "n256", "n1024", "n4096"};
  row.default_size = "n256";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {d.at("n"), d.at("c")}, "signal");
    b.result("y", b.graph().apply("softmax", {x}, {}, "y")[0]);
  };
  return row;
}

// Of BERT-base and GPT-2 small (768 wide) and of MiniLM (384), over the tokens of one text and of a batch.
OpWorkload row_norm() {
  OpWorkload row;
  row.dimensions = {{.name = "n"}, {.name = "d", .fallback = 768}};
  row.sizes = {"n1d8", "n128d384", "n4096d384", "n128", "n1024", "n8192"};
  row.default_size = "n1024";
  return row;
}

OpWorkload layer_norm() {
  OpWorkload row = row_norm();
  row.name = "op/layer_norm";
  row.description = "each row of x (N, D) with its own mean and variance, then scale and shift (D); d is 768";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {d.at("n"), d.at("d")}, "signal");
    const ValueId scale = b.input("scale", {d.at("d")}, "positive");
    const ValueId shift = b.input("shift", {d.at("d")}, "signal");
    b.result("y", b.graph().apply("layer_norm", {x, scale, shift}, {{"epsilon", 1e-5}}, "y")[0]);
  };
  return row;
}

OpWorkload rms_norm() {
  OpWorkload row = row_norm();
  row.name = "op/rms_norm";
  row.sizes.emplace_back("n2048d4096");  // of Llama 3 8B
  row.description = "each row of x (N, D) over the root of its mean square, then scale (D); d is 768";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {d.at("n"), d.at("d")}, "signal");
    const ValueId scale = b.input("scale", {d.at("d")}, "positive");
    b.result("y", b.graph().apply("rms_norm", {x, scale}, {{"epsilon", 1e-6}}, "y")[0]);
  };
  return row;
}

OpWorkload loss() {
  OpWorkload row;
  row.name = "op/softmax_cross_entropy";
  row.description = "the mean loss of (N, C) logits, a scalar; c is 10";
  row.dimensions = {{.name = "n"}, {.name = "c", .fallback = 10, .least = 2}};
  // The last one: the context of GPT-2 over its vocabulary.
  row.sizes = {"n1", "n32", "n1024", "n32768", "n1048576", "n1024c50257"};
  row.default_size = "n1024";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const std::int64_t n = d.at("n"), c = d.at("c");
    const ValueId logits = b.input("logits", {n, c}, "signal");
    const ValueId labels = b.input("labels", {n}, "below:" + std::to_string(c), DType::i32);
    b.result("loss", b.graph().softmax_cross_entropy(logits, labels, "loss"));
  };
  return row;
}

}  // namespace

std::vector<OpWorkload> row_op_workloads() {
  return {normalise(), reduce("sum"), reduce("mean"), reduce("max"),
          softmax(),   layer_norm(),  rms_norm(),     loss()};
}

}  // namespace assay
