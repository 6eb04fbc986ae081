// Each single op, at its two smallest sizes, on each backend of ours: what is timed agrees with the reference
// in fp64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>

#include "harness/conductor/data/initial_values.hpp"
#include "harness/graph/program.hpp"
#include "tests/workloads/altered_backend.hpp"
#include "tests/workloads/checked_cell.hpp"
#include "tests/workloads/our_backends.hpp"
#include "workloads/ops/op_workload.hpp"

namespace assay {
namespace {

using ::testing::Contains;
using ::testing::Field;

class CheckedOp : public ::testing::TestWithParam<std::string> {};

TEST_P(CheckedOp, agrees_with_the_oracle_forwards_and_backwards) {
  const std::unique_ptr<Backend> backend = make_backend(GetParam());
  for (const OpWorkload& op : all_op_workloads()) {
    for (const Task task : {Task::infer, Task::train}) {
      if (task == Task::train && !op.differentiable) continue;
      for (const std::string& mode : modes_of(GetParam())) {
        for (std::size_t size = 0; size < 2; ++size) {
          SCOPED_TRACE(op.name + " " + op.sizes.at(size) + " " + std::string(to_string(task)) + " " + mode);
          const Program program = op.program(op.sizes[size]);
          CompileOptions options;
          options.task = task;
          options.mode = mode;
          const std::string reason = backend->unsupported(program, options);
          EXPECT_TRUE(reason.empty() || GetParam() != "reference") << reason;
          if (!reason.empty()) continue;
          const Judged judged = judge_backend(*backend, program, {task, mode, PrecisionKind::fp32, 1});
          EXPECT_TRUE(judged.passed()) << judged.text();
        }
      }
    }
  }
}

TEST_P(CheckedOp, AgreesWithTheOracleInEachForm) {
  struct Form {
    const char *op, *size;
  };
  const std::unique_ptr<Backend> backend = make_backend(GetParam());
  for (const auto& [op, size] :
       {Form{"op/gelu", "256t1"}, Form{"op/attention", "n3t8h2d4m1"}, Form{"op/attention", "n2t8h4d4g2c1m1"},
        Form{"op/mean_pool", "n5t8d4"}, Form{"op/mean_pool", "n5t8d4m1"}}) {
    for (const Task task : {Task::infer, Task::train}) {
      for (const PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16}) {
        SCOPED_TRACE(std::string(op) + " " + size + " " + std::string(to_string(task)) + " " +
                     std::string(to_string(precision)));
        const Judged judged =
            judge_backend(*backend, find_op_workload(op).program(size), {task, "graph", precision, 1});
        EXPECT_TRUE(judged.passed()) << judged.text();
      }
    }
  }
}

// A size of an op with drawn dimensions of 1 to 5, and a drawn form.
std::string drawn_size(const OpWorkload& op, std::mt19937& draw) {
  std::string size;
  for (const Dimension& dimension : op.dimensions) {
    const bool padding = dimension.name == "p";
    const std::int64_t from = padding ? 0 : dimension.least,
                       values = dimension.least == 0 && !padding ? 2 : 5;
    size += dimension.name + std::to_string(from + static_cast<std::int64_t>(draw()) % values);
  }
  return size;
}

TEST_P(CheckedOp, AgreesWithTheOracleAtSmallSizesOrIsRefused) {
  constexpr int wanted = 4, max_draws = 2000;
  const std::unique_ptr<Backend> backend = make_backend(GetParam());
  std::mt19937 draw(7);
  for (const OpWorkload& op : all_op_workloads()) {
    int checked = 0;
    for (int tries = 0; tries < max_draws && checked < wanted; ++tries) {
      const std::string size = drawn_size(op, draw);
      Program program;
      try {
        program = op.program(size);
      } catch (const GraphError&) {
        continue;  // such as a kernel that is larger than the image
      }
      const Task task = op.differentiable && checked % 2 == 0 ? Task::train : Task::infer;
      SCOPED_TRACE(op.name + " " + size + " " + std::string(to_string(task)));
      CompileOptions options;
      options.task = task;
      options.mode = "graph";
      ++checked;
      if (!backend->unsupported(program, options).empty()) continue;
      const Judged judged = judge_backend(*backend, program, {task, "graph", PrecisionKind::fp32, 1});
      EXPECT_TRUE(judged.passed()) << judged.text();
    }
    EXPECT_EQ(checked, wanted) << op.name << ": too few drawn sizes are valid";
  }
}

// The products of the results and their cotangents, summed.
double weighted_results(Executable& reference, const Program& program, const std::vector<float>& operands) {
  reference.stage(0, {operands.data(), nullptr});
  reference.step(0, 0, 1);
  reference.synchronize();
  std::map<std::string, std::int64_t> offsets;
  for (const auto& [name, input] : packed_inputs(program.training.value())) offsets[name] = input.offset;
  double sum = 0;
  for (const HostTensor& tensor : reference.results()) {
    const auto cotangent = program.cotangents.find(tensor.name);
    if (cotangent == program.cotangents.end()) continue;
    const std::vector<double> y = to_doubles(tensor);
    const float* dy = operands.data() + offsets.at(cotangent->second);
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * static_cast<double>(dy[i]);
  }
  return sum;
}

// The reference's kernels in fp64: every gradient against central differences, at drawn sizes.
TEST(ReferenceOps, HaveTheGradientsOfTheirResultsAtSmallSizes) {
  constexpr int wanted = 5, max_draws = 2000;
  constexpr double h = 0x1p-10;
  for (const OpWorkload& op : all_op_workloads()) {
    if (!op.differentiable || op.name == "op/dropout") continue;  // a dropout draws in each step
    std::seed_seq of_op(op.name.begin(), op.name.end());
    std::mt19937 draw(of_op);
    int compared = 0;
    for (int tries = 0; tries < max_draws && compared < wanted; ++tries) {
      const std::string size = drawn_size(op, draw);
      Program program;
      try {
        program = op.program(size);
      } catch (const GraphError&) {
        continue;
      }
      SCOPED_TRACE(op.name + " " + size);
      CompileOptions options;
      options.task = Task::train;
      options.mode = "graph";
      options.precision = precision_of(PrecisionKind::fp64);
      reference::ReferenceBackend backend;
      const std::unique_ptr<Executable> reference = backend.compile(program, options);
      reference->set_state({});
      std::vector<float> operands = draw_operands(program.training.value(), 1, 3, "small sizes");
      // Multiples of a power of two, so that a difference of 2 h is exact.
      for (const auto& [name, input] : packed_inputs(program.training.value())) {
        const TensorType& type = program.training->value(program.training->find(name)).type;
        if (!is_floating(type.dtype)) continue;
        for (std::int64_t e = input.offset; e < input.offset + type.elements(); ++e) {
          float& value = operands[static_cast<std::size_t>(e)];
          if (std::isfinite(value)) value = std::round(value * 0x1p12F) * 0x1p-12F;
        }
      }
      weighted_results(*reference, program, operands);
      std::map<std::string, std::vector<double>> gradients;
      for (const HostTensor& tensor : reference->results()) gradients[tensor.name] = to_doubles(tensor);
      for (const ValueId id : differentiated_inputs(program)) {
        const Value& input = program.training->value(id);
        const std::vector<double>& gradient = gradients.at("gradient/" + input.name);
        double largest = 1;
        for (const double element : gradient) largest = std::max(largest, std::abs(element));
        std::int64_t offset = 0;
        for (const auto& [name, packed] : packed_inputs(program.training.value()))
          if (name == input.name) offset = packed.offset;
        for (std::size_t e = 0; e < gradient.size(); e += 1 + gradient.size() / 20) {
          float& operand = operands[static_cast<std::size_t>(offset) + e];
          const float kept = operand;
          const auto difference = [&](double step) {
            operand = kept + static_cast<float>(step);
            const double above = weighted_results(*reference, program, operands);
            operand = kept - static_cast<float>(step);
            const double below = weighted_results(*reference, program, operands);
            operand = kept;
            return (above - below) / (2 * step);
          };
          // The error of one of them is a third derivative times h^2; it cancels.
          EXPECT_NEAR(gradient[e], (4 * difference(h) - difference(2 * h)) / 3, 1e-4 * largest)
              << input.name << "[" << e << "]";
        }
      }
      ++compared;
    }
    EXPECT_EQ(compared, wanted) << op.name;
  }
}

// The form of a size is part of what is computed.
TEST(CheckedOps, AnotherFormOfTheSameSizeIsFound) {
  struct Forms {
    const char *op, *right, *wrong;
  };
  for (const auto& [op, right, wrong] : {Forms{"op/gelu", "256t1", "256"}, Forms{"op/gelu", "256", "256t1"},
                                         Forms{"op/attention", "n3t8h2d4", "n3t8h2d4c1"}}) {
    for (const Task task : {Task::infer, Task::train}) {
      SCOPED_TRACE(std::string(op) + " " + right + " " + std::string(to_string(task)));
      const OpWorkload& workload = find_op_workload(op);
      AlteredBackend backend("reference", workload.program(wrong));
      const Judged judged =
          judge_backend(backend, workload.program(right), {task, "graph", PrecisionKind::fp32, 1});
      EXPECT_FALSE(judged.passed());
    }
  }
}

// Its operands are the same, and it does not read the mask.
Program unmasked(const OpWorkload& op, std::string_view size) {
  nlohmann::json json = to_json(op.program(size));
  for (const char* graph : {"training", "inference"}) {
    for (nlohmann::json& node : json[graph]["nodes"]) node["inputs"].back() = nullptr;
  }
  return program_from_json(json);
}

TEST(CheckedOps, AMaskThatIsNotReadIsFound) {
  for (const auto& [op, size] : {std::pair{"op/attention", "n3t8h2d4m1"}, {"op/mean_pool", "n3t8d4m1"}}) {
    const OpWorkload& workload = find_op_workload(op);
    AlteredBackend backend("reference", unmasked(workload, size));
    const Judged judged =
        judge_backend(backend, workload.program(size), {Task::infer, "graph", PrecisionKind::fp32, 1});
    EXPECT_FALSE(judged.passed()) << op;
    EXPECT_GT(judged.worst(), 100) << op;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, CheckedOp, ::testing::ValuesIn(our_backends()),
                         [](const auto& backend) { return backend.param; });

// Computes the right thing once and then no more: what an executable that skips work would look like.
class Stale final : public Executable {
 public:
  explicit Stale(std::unique_ptr<Executable> inner) : inner_(std::move(inner)) {}
  void set_state(std::span<const HostTensor> tensors) override { inner_->set_state(tensors); }
  std::vector<HostTensor> state() override { return inner_->state(); }
  void stage(std::int64_t slot, const HostBatch& batch) override { inner_->stage(slot, batch); }
  void step(std::int64_t slot, double rate, std::int64_t step) override {
    if (steps_++ == 0) inner_->step(slot, rate, step);
  }
  void synchronize() override { inner_->synchronize(); }
  double loss() override { return inner_->loss(); }
  std::vector<HostTensor> results() override { return inner_->results(); }
  void evaluate(const HostBatch&, float*) override {}
  std::map<std::string, std::int64_t> memory() const override { return {}; }

 private:
  std::unique_ptr<Executable> inner_;
  int steps_ = 0;
};

class StaleBackend final : public Backend {
 public:
  BackendInfo info() const override { return {}; }
  std::string unsupported(const Program&, const CompileOptions&) const override { return {}; }
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override {
    return std::make_unique<Stale>(reference_.compile(program, options));
  }

 private:
  reference::ReferenceBackend reference_;
};

TEST(CheckedOps, finds_an_op_that_stops_computing_while_timed) {
  StaleBackend stale;
  const Judged judged = judge_backend(stale, find_op_workload("op/linear").program("m4"),
                                      {Task::train, "graph", PrecisionKind::fp32, 1});
  EXPECT_FALSE(judged.passed());
  EXPECT_GT(judged.worst(), 100);
}

TEST(CheckedOps, results_and_gradients_are_compared_by_name) {
  reference::ReferenceBackend backend;
  const Judged judged = judge_backend(backend, find_op_workload("op/linear").program("m4n3k5"),
                                      {Task::train, "graph", PrecisionKind::fp32, 1});
  for (const char* name : {"result/y", "gradient/x", "gradient/weight", "gradient/bias"})
    EXPECT_THAT(judged.exam.tensors, Contains(Field(&TensorVerdict::name, name)));
  EXPECT_EQ(judged.exam.tensors.size(), 4U);
}

}  // namespace
}  // namespace assay
