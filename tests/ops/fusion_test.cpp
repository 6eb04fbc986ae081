// A fused graph computes what the unfused one does: whole training steps on the reference, for any set of
// fusions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "harness/engine/kernel_executable.hpp"
#include "harness/graph/passes/fuse.hpp"
#include "tests/unit/engine/programs.hpp"
#include "tests/unit/engine/slicing_library.hpp"

namespace assay {
namespace {

// The reference's kernels after some fusions; counts the remaining nodes.
class Fusing final : public testing::SlicingLibrary {
 public:
  Fusing(FusionRules rules, std::size_t* nodes, const CompileOptions& options)
      : SlicingLibrary(options), rules_(std::move(rules)), nodes_(nodes) {}

  Graph fuse(Graph graph) const override {
    Graph fused = assay::fuse(graph, rules_);
    *nodes_ = std::min(*nodes_, fused.nodes().size());
    return fused;
  }

 private:
  FusionRules rules_;
  std::size_t* nodes_;
};

struct Outcome {
  std::vector<HostTensor> state;
  std::vector<HostTensor> gradients;
  std::size_t nodes = SIZE_MAX;  // of the smallest graph that was fused
};

Outcome train(const Program& program, PrecisionKind precision, const FusionRules& rules) {
  Outcome outcome;
  const CompileOptions options = testing::options("graph", precision);
  KernelExecutable executable(program, options, std::make_unique<Fusing>(rules, &outcome.nodes, options));
  executable.set_state(testing::parameters(program, 3));
  const testing::Batch batch = testing::batch(program, 4);
  executable.stage(0, batch.host());
  for (int step = 1; step <= 3; ++step) executable.step(0, 1e-2, step);
  executable.synchronize();
  outcome.state = executable.state();
  outcome.gradients = executable.gradients(batch.host());
  return outcome;
}

void expect_same_bits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_EQ(a[i].type, b[i].type);
    EXPECT_TRUE(a[i].bytes == b[i].bytes) << a[i].name;
  }
}

// The addend of a fused norm or linear is not rounded to bf16 before: near, but not the same bits.
void expect_near(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b, double epsilon) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    double error = 0, scale = 0;
    const auto element = [](const HostTensor& tensor, std::size_t e) {
      if (tensor.type.dtype == DType::f64) return tensor.as<double>()[e];
      return static_cast<double>(tensor.as<float>()[e]);
    };
    for (std::size_t e = 0; e < static_cast<std::size_t>(a[i].type.elements()); ++e) {
      const double difference = element(a[i], e) - element(b[i], e);
      error += difference * difference;
      scale += std::pow(element(b[i], e), 2);
    }
    // The gradient of the bias before a batch norm is only rounding.
    EXPECT_LE(std::sqrt(error), epsilon * std::max(std::sqrt(scale), 1.0)) << a[i].name;
  }
}

FusionRules some_rules(std::mt19937& random, bool all) {
  FusionRules rules;
  const auto take = [&](std::set<std::string>& into, std::initializer_list<const char*> ops) {
    for (const char* op : ops) {
      if (all || random() % 2 == 0) into.insert(op);
    }
  };
  take(rules.activation, {"convolution", "linear", "batch_norm", "add"});
  take(rules.mask,
       {"convolution_input_gradient", "linear_input_gradient", "average_pool_gradient", "max_pool_gradient"});
  rules.grouped_updates = all || random() % 2 == 0;
  rules.norm_residual = all || random() % 2 == 0;
  rules.norm_gradient = all || random() % 2 == 0;
  rules.norm_mask = all || random() % 2 == 0;
  rules.norm_statistics = all || random() % 2 == 0;
  rules.row_norm_gradient = all || random() % 2 == 0;
  rules.linear_residual = all || random() % 2 == 0;
  rules.linear_addend = all || random() % 2 == 0;
  rules.cast_after_embedding = all || random() % 2 == 0;
  rules.joined_projections = all || random() % 2 == 0;
  take(rules.gelu, {"linear"});
  return rules;
}

class Fusion : public ::testing::TestWithParam<std::string> {
 protected:
  static Program program() {
    if (GetParam() == "residual") {
      Program program = testing::residual_program(4);
      // Adam would move the bias before a batch norm by full steps, along a gradient that is only rounding.
      program.optimizer = {.kind = "sgd"};
      return program;
    }
    if (GetParam() == "vit-tiny") {
      Program program = find_workload("vit-tiny").build_small();
      // So would AdamW move the biases of keys.
      program.optimizer = {.kind = "sgd"};
      return program;
    }
    Program program = find_workload(GetParam()).build(4);
    if (GetParam() == "mlp") program.optimizer = {.kind = "sgd", .weight_decay = 1e-3};
    return program;
  }
};

TEST_P(Fusion, KeepsTheResultsOfThreeTrainingSteps) {
  std::mt19937 random(11);
  for (PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16, PrecisionKind::fp64}) {
    const Outcome plain = train(program(), precision, {});
    for (int draw = 0; draw < 4; ++draw) {
      SCOPED_TRACE(std::string(to_string(precision)) + " draw " + std::to_string(draw));
      const FusionRules rules = some_rules(random, draw == 0);
      const Outcome fused = train(program(), precision, rules);
      const bool transformer = GetParam() == "vit-tiny", adds = GetParam() == "residual" || transformer;
      // A gradient that is only rounding becomes zero, and a variance is computed from its root.
      const bool norms = GetParam() == "residual" && (rules.norm_gradient || rules.norm_statistics);
      // One product has the sums of three.
      const bool products = transformer && rules.joined_projections;
      if (precision == PrecisionKind::bf16 && adds) {
        expect_near(fused.gradients, plain.gradients, 0.05);
      } else if (norms || products) {
        const double epsilon = precision == PrecisionKind::fp64 ? 1e-12 : 1e-5;
        expect_near(fused.state, plain.state, epsilon);
        expect_near(fused.gradients, plain.gradients, epsilon);
      } else {
        expect_same_bits(fused.state, plain.state);
        expect_same_bits(fused.gradients, plain.gradients);
      }
      if (draw == 0) {
        EXPECT_LT(fused.nodes, plain.nodes);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Fusion, ::testing::Values("mlp", "lenet5", "residual", "vit-tiny"),
                         [](const auto& param) { return param.param == "vit-tiny" ? "vit" : param.param; });

}  // namespace
}  // namespace assay
