// Elementwise ops.
#include "workloads/ops/list.hpp"

namespace assay {
namespace {

OpWorkload unary(std::string op, std::string formula, const Attributes& attributes = {}) {
  OpWorkload row;
  row.name = "op/" + op;
  row.description = std::move(formula) + ", x (N)";
  row.dimensions = {{.name = ""}};
  row.sizes = element_sweep();
  row.default_size = "65536";
  row.build = [op, attributes](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {1, d.at("")}, "signal");
    b.result("y", b.graph().apply(op, {x}, attributes, "y")[0]);
  };
  return row;
}

// Also the elements inside an MLP of MiniLM: 128 and 4096 tokens of 1536.
OpWorkload in_an_mlp(OpWorkload row) {
  row.sizes = {"16", "256", "4096", "65536", "196608", "1048576", "4194304", "6291456"};
  return row;
}

}  // namespace

std::vector<OpWorkload> pointwise_op_workloads() {
  OpWorkload add;
  add.name = "op/add";
  add.description = "y = a + b, both (N)";
  add.dimensions = {{.name = ""}};
  add.sizes = element_sweep();
  add.default_size = "65536";
  add.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId left = b.input("a", {1, d.at("")}, "signal");
    const ValueId right = b.input("b", {1, d.at("")}, "signal");
    b.result("y", b.graph().add(left, right, "y"));
  };

  OpWorkload dropout = add;
  dropout.name = "op/dropout";
  dropout.description =
      "y = 2 x or 0, each with probability 1/2, x (N); the mask is drawn in the step, in training and in "
      "inference";
  dropout.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {1, d.at("")}, "signal");
    const ValueId mask = b.mask("mask", {1, d.at("")});
    b.result("y", b.graph().apply("dropout", {x, mask}, {{"rate", 0.5}}, "y")[0]);
  };
  return {
      unary("relu", "y = max(x, 0)"),
      unary("sigmoid", "y = 1 / (1 + e^-x)"),
      unary("tanh", "y = tanh(x)"),
      unary("softplus", "y = log(1 + e^x), also called softrelu"),
      unary("softsign", "y = x / (1 + |x|)"),
      in_an_mlp(unary("gelu", "y = x (1 + erf(x / sqrt(2))) / 2", {{"approximate", std::string("none")}})),
      in_an_mlp(unary("silu", "y = x / (1 + e^-x), also called swish")),
      add,
      dropout};
}

}  // namespace assay
