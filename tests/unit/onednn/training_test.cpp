// Whole training steps of the workloads, against the reference in fp64 and against themselves.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backends/onednn/backend.hpp"
#include "backends/onednn/library.hpp"
#include "backends/reference/reference_backend.hpp"
#include "tests/relative_error.hpp"
#include "workloads/workload.hpp"

namespace assay::onednn {
namespace {

constexpr std::int64_t batch = 6;

struct Case {
  const char* workload;
  const char* mode;
  PrecisionKind precision;
};
void PrintTo(const Case& c, std::ostream* stream) {
  *stream << c.workload << "_" << c.mode << "_" << to_string(c.precision);
}

struct Data {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  std::vector<HostTensor> state;

  explicit Data(const Program& program) : inputs(batch * 28 * 28), labels(batch) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for (float& x : inputs) x = uniform(random);
    for (std::size_t n = 0; n < labels.size(); ++n) labels[n] = static_cast<std::int32_t>(n % 10);
    for (const Value& value : program.training->values()) {
      if (value.role != Role::parameter) continue;
      HostTensor tensor = HostTensor::zeros(value.name, value.type);
      const Shape& shape = value.type.shape;
      const double fan = shape.size() > 1 ? static_cast<double>(value.type.elements() / shape[0]) : 30.0;
      for (float& x : tensor.as<float>()) x = uniform(random) / static_cast<float>(std::sqrt(fan));
      state.push_back(std::move(tensor));
    }
  }
  HostBatch host() const { return {inputs.data(), labels.data()}; }
};

CompileOptions options(const char* mode, PrecisionKind precision, int threads = 2) {
  CompileOptions o;
  o.mode = mode;
  o.precision = precision_of(precision);
  o.threads = threads;
  o.gradients = true;
  return o;
}

class Training : public ::testing::TestWithParam<Case> {};

TEST_P(Training, gradients_agree_with_the_reference_in_fp64) {
  const auto [workload, mode, precision] = GetParam();
  const bool bf16 = precision == PrecisionKind::bf16;
  if (bf16 && !has_bf16()) GTEST_SKIP() << "this CPU has no bf16";
  const Program program = find_workload(workload).build(batch);
  const Data data(program);
  OnednnBackend backend;
  reference::ReferenceBackend oracle;
  const auto ours = backend.compile(program, options(mode, precision));
  const auto theirs = oracle.compile(program, options("eager", PrecisionKind::fp64));
  ours->set_state(data.state);
  theirs->set_state(data.state);
  const auto got = ours->gradients(data.host()), expected = theirs->gradients(data.host());
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(got[i].name, expected[i].name);
    EXPECT_LT(testing::relative_error(got[i], expected[i]), bf16 ? 0.15 : 2e-5) << expected[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Workloads, Training,
    ::testing::Values(
        Case{"mlp", "graph", PrecisionKind::fp32}, Case{"mlp", "eager", PrecisionKind::fp32},
        Case{"lenet5", "graph", PrecisionKind::fp32}, Case{"lenet5", "eager", PrecisionKind::fp32},
        Case{"cnn", "graph", PrecisionKind::fp32}, Case{"cnn", "eager", PrecisionKind::fp32},
        Case{"mlp", "primitives", PrecisionKind::fp32}, Case{"lenet5", "primitives", PrecisionKind::fp32},
        Case{"cnn", "primitives", PrecisionKind::fp32}, Case{"mlp", "graph", PrecisionKind::bf16},
        Case{"lenet5", "graph", PrecisionKind::bf16}, Case{"cnn", "graph", PrecisionKind::bf16}));

std::vector<HostTensor> train(const Program& program, const Data& data, int steps, int threads) {
  OnednnBackend backend;
  const auto executable = backend.compile(program, options("graph", PrecisionKind::fp32, threads));
  executable->set_state(data.state);
  executable->stage(0, data.host());
  for (int i = 1; i <= steps; ++i) executable->step(0, 1e-3, i);
  return executable->state();
}

TEST(Determinism, two_runs_with_the_same_threads_are_bit_identical) {
  for (const char* workload : {"mlp", "lenet5", "cnn"}) {
    const Program program = find_workload(workload).build(batch);
    const Data data(program);
    const auto first = train(program, data, 5, 2), second = train(program, data, 5, 2);
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i)
      EXPECT_EQ(first[i].bytes, second[i].bytes) << first[i].name;
  }
}

// One image more than threads divide evenly, and a batch smaller than the team.
TEST(FirstLayer, agrees_with_the_reference_for_any_batch) {
  for (const std::int64_t n : {1, 3}) {
    const Program program = find_workload("lenet5").build(n);
    const Data data(program);
    OnednnBackend backend;
    reference::ReferenceBackend oracle;
    const auto ours = backend.compile(program, options("graph", PrecisionKind::fp32));
    const auto theirs = oracle.compile(program, options("eager", PrecisionKind::fp64));
    ours->set_state(data.state);
    theirs->set_state(data.state);
    const auto got = ours->gradients(data.host()), expected = theirs->gradients(data.host());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LT(testing::relative_error(got[i], expected[i]), 2e-5) << expected[i].name;
    }
  }
}

TEST(Backend, reports_what_it_does_not_support) {
  const Program program = find_workload("mlp").build(batch);
  OnednnBackend backend;
  EXPECT_EQ(backend.unsupported(program, options("graph", PrecisionKind::fp32)), "");
  EXPECT_NE(backend.unsupported(program, options("compile", PrecisionKind::fp32)).find("compile"),
            std::string::npos);
  EXPECT_NE(backend.unsupported(program, options("graph", PrecisionKind::fp64)).find("fp64"),
            std::string::npos);
}

TEST(Backend, reports_the_loaded_library) {
  const BackendInfo info = OnednnBackend().info();
  EXPECT_EQ(info.version.substr(0, 2), "3.");
  EXPECT_NE(info.libraries.front().path.find("dnnl"), std::string::npos);
  EXPECT_TRUE(info.settings.contains("instruction_set"));
}

}  // namespace
}  // namespace assay::onednn
