// Elementwise ops.
#include "workloads/ops/list.hpp"

namespace assay {
namespace {

OpWorkload unary(std::string op, std::string formula) {
  OpWorkload row;
  row.name = "op/" + op;
  row.description = std::move(formula) + ", x (N)";
  row.dimensions = {{.name = ""}};
  row.sizes = element_sweep();
  row.default_size = "65536";
  row.build = [op](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {1, d.at("")}, "signal");
    b.result("y", b.graph().apply(op, {x}, {}, "y")[0]);
  };
  return row;
}

// Also the elements inside an MLP: of MiniLM, 128 and 4096 tokens of 1536, and by tanh of GPT-2 small, 1024 of 3072.
OpWorkload gelu() {
  OpWorkload row = unary("gelu", "y = x (1 + erf(x / sqrt(2))) / 2, or with t 1 its approximation by tanh");
  row.dimensions.push_back({.name = "t", .least = 0});
  row.sizes = {"16",     "256",     "256t1",     "4096",    "65536",  "65536t1",
               "196608", "1048576", "3145728t1", "4194304", "6291456"};
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {1, d.at("")}, "signal");
    const std::string approximate = d.at("t") > 0 ? "tanh" : "none";
    b.result("y", b.graph().apply("gelu", {x}, {{"approximate", approximate}}, "y")[0]);
  };
  return row;
}

// Also the elements inside an MLP: 128 and 4096 tokens of 1536, and of Llama 3 8B, 2048 of 14336.
OpWorkload silu() {
  OpWorkload row = unary("silu", "y = x / (1 + e^-x), also called swish");
  row.sizes = {"16", "256", "4096", "65536", "196608", "1048576", "4194304", "6291456", "29360128"};
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
  return {unary("relu", "y = max(x, 0)"),
          unary("sigmoid", "y = 1 / (1 + e^-x)"),
          unary("tanh", "y = tanh(x)"),
          unary("softplus", "y = log(1 + e^x), also called softrelu"),
          unary("softsign", "y = x / (1 + |x|)"),
          gelu(),
          silu(),
          add,
          dropout};
}

}  // namespace assay
