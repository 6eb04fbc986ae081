// Elementwise ops.
#include <fmt/format.h>

#include <map>

#include "harness/graph/ops/unary.hpp"
#include "workloads/ops/list.hpp"

namespace assay {
namespace {

OpWorkload of_elements(const std::string& op, std::string description) {
  OpWorkload row;
  row.name = "op/" + op;
  row.description = std::move(description);
  row.dimensions = {{.name = ""}};
  row.sizes = element_sweep();
  row.default_size = "65536";
  return row;
}

// Sizes beside the sweep: the elements inside an MLP, of MiniLM (128 and 4096 tokens of 1536), of GPT-2 small with
// the tanh (1024 of 3072), and of Llama 3 8B (2048 of 14336).
const std::map<std::string_view, std::vector<std::string>> sizes_of_networks{
    {"gelu",
     {"16", "256", "256t1", "4096", "65536", "65536t1", "196608", "1048576", "3145728t1", "4194304",
      "6291456"}},
    {"silu", {"16", "256", "4096", "65536", "196608", "1048576", "4194304", "6291456", "29360128"}}};

// Attributes are the usual ones; one of two words is a dimension: 0 the first, 1 the second.
OpWorkload unary(const UnaryFunction& function) {
  OpWorkload row = of_elements(std::string(function.name), fmt::format("{}, x (N)", function.formula));
  const FunctionAttribute* words = nullptr;
  for (const FunctionAttribute& attribute : function.attributes) {
    if (attribute.words.empty()) {
      row.description += fmt::format("; {} {:.6g}", attribute.name, attribute.usual);
    } else {
      words = &attribute;
      row.dimensions.push_back({.name = "t", .least = 0});
      row.description += fmt::format("; with t 1 {} \"{}\"", attribute.name, attribute.words[1]);
    }
  }
  if (const auto found = sizes_of_networks.find(function.name); found != sizes_of_networks.end())
    row.sizes = found->second;
  row.build = [&function, words](OperandBuilder& b, const Dimensions& d) {
    // A signal would reach only the middle one of a function's pieces.
    const ValueId x = b.input("x", {1, d.at("")}, function.piece != nullptr ? "wide" : "signal");
    Attributes attributes = usual_attributes(function);
    if (words != nullptr && d.at("t") > 0)
      attributes.set(std::string(words->name), std::string(words->words[1]));
    b.result("y", b.graph().apply(function.name, {x}, std::move(attributes), "y")[0]);
  };
  return row;
}

OpWorkload binary(const std::string& op, const std::string& formula) {
  OpWorkload row = of_elements(op, formula + ", both (N)");
  row.build = [op](OperandBuilder& b, const Dimensions& d) {
    const ValueId left = b.input("a", {1, d.at("")}, "signal");
    const ValueId right = b.input("b", {1, d.at("")}, op == "divide" ? "positive" : "signal");
    b.result("y", b.graph().apply(op, {left, right}, {}, "y")[0]);
  };
  return row;
}

OpWorkload dropout() {
  OpWorkload row = of_elements(
      "dropout",
      "y = 2 x or 0, each with probability 1/2, x (N); the mask is drawn in the step, in training and in inference");
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {1, d.at("")}, "signal");
    const ValueId mask = b.mask("mask", {1, d.at("")});
    b.result("y", b.graph().apply("dropout", {x, mask}, {{"rate", 0.5}}, "y")[0]);
  };
  return row;
}

}  // namespace

std::vector<OpWorkload> pointwise_op_workloads() {
  std::vector<OpWorkload> rows;
  for (const UnaryFunction& function : unary_functions()) rows.push_back(unary(function));
  for (const auto& [op, formula] : {std::pair{"add", "y = a + b"}, std::pair{"subtract", "y = a - b"},
                                    std::pair{"multiply", "y = a * b"}, std::pair{"divide", "y = a / b"}})
    rows.push_back(binary(op, formula));
  rows.push_back(dropout());
  return rows;
}

}  // namespace assay
