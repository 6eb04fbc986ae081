// Autodiff and the reference's gradient kernels against central differences in fp64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/reference/reference_library.hpp"
#include "harness/engine/executor.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/autodiff.hpp"
#include "tests/ops/op_case.hpp"

namespace assay::ops {
namespace {

std::vector<OpCase> differentiable() {
  std::vector<OpCase> rows;
  for (const OpCase& row : all_cases()) {
    if (row.differentiable) rows.push_back(row);
  }
  return rows;
}

class Gradient : public ::testing::TestWithParam<OpCase> {};

// The result weighted by numbers that no symmetry cancels, summed to a scalar.
struct Problem {
  Graph graph;
  std::vector<std::size_t> operands;  // that are differentiated
  ValueId scalar = none;
};

Problem problem_of(const OpCase& row) {
  Problem problem{graph_of(row, precision_of(PrecisionKind::fp64)), {}, none};
  Graph& graph = problem.graph;
  GraphBuilder builder(graph);
  const ValueId result = graph.output("result0");
  const Shape shape = graph.value(result).type.shape;
  problem.scalar = result;
  if (!shape.empty()) {
    const std::int64_t elements = element_count(shape);
    const ValueId weights = graph.add_value("weights", {DType::f64, {1, elements}}, Role::input);
    const ValueId flat = builder.apply("reshape", {result}, {{"shape", Shape{1, elements}}}, "flat")[0];
    const ValueId sum = builder.apply("linear", {flat, weights, none}, {}, "sum")[0];
    problem.scalar = builder.apply("reshape", {sum}, {{"shape", Shape{}}}, "scalar")[0];
  }
  const Op& op = find_op(row.op);
  const std::vector<Operand> operands = op.operands();
  std::vector<ValueId> with_respect_to;
  for (std::size_t i = 0; i < row.operands.size(); ++i) {
    const ValueId operand = graph.find(fmt::format("operand{}", i));
    // Running statistics have no gradient in training, and masks of attention never have one.
    const bool fixed = (row.op == "batch_norm" && i >= 3) || operand_at(op, operands, i).name == "mask";
    if (operand == none || fixed || graph.value(operand).type.dtype != DType::f64) continue;
    problem.operands.push_back(i);
    with_respect_to.push_back(operand);
  }
  const std::vector<ValueId> gradients = differentiate(graph, problem.scalar, with_respect_to);
  graph.add_output("scalar", problem.scalar);
  for (std::size_t g = 0; g < gradients.size(); ++g) {
    graph.add_output(fmt::format("gradient{}", problem.operands[g]), gradients[g]);
  }
  return problem;
}

// Evaluates the graph at values that are set by hand.
class Evaluation {
 public:
  Evaluation(const Graph& graph, reference::ReferenceLibrary& library)
      : lowered_(lower(graph, library, {true, {}})) {
    for (const Buffer& buffer : lowered_.buffers) {
      memory_.emplace_back(buffer.bytes, "a test");
      if (buffer.kind != Buffer::Kind::transient) {
        named_[lowered_.graph.value(buffer.first.value).name] = memory_.size() - 1;
      }
    }
    for (LoweredStep& step : lowered_.steps) {
      scratch_.emplace_back(step.scratch_bytes, "a test");
      std::vector<void*> inputs, outputs;
      for (const int b : step.inputs)
        inputs.push_back(b == none ? nullptr : memory_[static_cast<std::size_t>(b)].data());
      for (const int b : step.outputs)
        outputs.push_back(b == none ? nullptr : memory_[static_cast<std::size_t>(b)].data());
      step.kernel->bind(inputs, outputs, scratch_.back().data());
    }
  }

  void set(const std::string& name, const std::vector<double>& values) {
    Storage& memory = memory_[named_.at(name)];
    const Placed& place = lowered_.buffers[named_.at(name)].first;
    if (place.type.dtype == DType::i32) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        static_cast<std::int32_t*>(memory.data())[i] = static_cast<std::int32_t>(values[i]);
      }
    } else if (place.type.dtype == DType::u8) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        static_cast<std::uint8_t*>(memory.data())[i] = static_cast<std::uint8_t>(values[i]);
      }
    } else {
      std::copy(values.begin(), values.end(), static_cast<double*>(memory.data()));
    }
  }

  void run() {
    for (LoweredStep& step : lowered_.steps) step.kernel->run();
  }
  const double* output(const std::string& name) const {
    return static_cast<const double*>(
        memory_[static_cast<std::size_t>(lowered_.outputs.at(name).buffer)].data());
  }
  bool has(const std::string& name) const { return named_.contains(name); }

 private:
  LoweredGraph lowered_;
  std::vector<Storage> memory_, scratch_;
  std::map<std::string, std::size_t> named_;
};

TEST_P(Gradient, agrees_with_central_differences) {
  const OpCase& row = GetParam();
  const Problem problem = problem_of(row);
  reference::ReferenceLibrary library(1);
  Evaluation at(problem.graph, library);
  for (std::size_t i = 0; i < row.operands.size(); ++i) {
    if (row.operands[i].fill != Fill::absent) at.set(fmt::format("operand{}", i), values_of(row, i));
  }
  if (at.has("weights")) {
    std::vector<double> weights(
        static_cast<std::size_t>(problem.graph.value(problem.graph.find("weights")).type.elements()));
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = std::sin(static_cast<double>(i) * 1.7 + 0.3);
    at.set("weights", weights);
  }
  at.run();
  std::map<std::size_t, std::vector<double>> gradients;
  for (const std::size_t i : problem.operands) {
    const double* gradient = at.output(fmt::format("gradient{}", i));
    gradients[i].assign(gradient, gradient + element_count(row.operands[i].shape));
  }
  for (const std::size_t i : problem.operands) {
    const std::string name = fmt::format("operand{}", i);
    std::vector<double> values = values_of(row, i);
    double largest = 0;
    for (const double gradient : gradients[i]) largest = std::max(largest, std::abs(gradient));
    EXPECT_GT(largest, 0) << "operand " << i << " has no gradient at all: the row proves nothing";
    const std::size_t stride = std::max<std::size_t>(1, values.size() / 61);
    for (std::size_t e = 0; e < values.size(); e += stride) {
      constexpr double h = 1e-5;
      const double old = values[e];
      const auto scalar_at = [&](double value) {
        values[e] = value;
        at.set(name, values);
        at.run();
        return *at.output("scalar");
      };
      const double difference = (scalar_at(old + h) - scalar_at(old - h)) / (2 * h);
      values[e] = old;
      EXPECT_NEAR(gradients[i][e], difference, 1e-7 * largest + 1e-8) << "operand " << i << ", element " << e;
    }
    at.set(name, values);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Gradient, ::testing::ValuesIn(differentiable()),
                         [](const auto& row) { return row.param.id(); });

}  // namespace
}  // namespace assay::ops
