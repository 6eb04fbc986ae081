// Each single op, at its two smallest sizes, on each backend of ours: what is timed agrees with the reference
// in fp64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

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
