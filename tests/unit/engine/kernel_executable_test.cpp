#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/reference/tf32.hpp"
#include "harness/core/error.hpp"
#include "harness/worker/backend.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay {
namespace {

using namespace testing;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& how) {
  auto executable = reference::ReferenceBackend().compile(program, how);
  executable->set_state(parameters(program, 1));
  return executable;
}

void run_steps(Executable& executable, const Program& program, int steps, std::int64_t slots = 3) {
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    const Batch fed = batch(program, static_cast<std::uint64_t>(slot));
    executable.stage(slot, fed.host());
  }
  for (int step = 0; step < steps; ++step) executable.step(step % slots, 1e-3, step + 1);
  executable.synchronize();
}

double difference(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (std::size_t t = 0; t < std::min(a.size(), b.size()); ++t) {
    EXPECT_EQ(a[t].name, b[t].name);
    const auto value = [](const HostTensor& tensor, std::size_t i) {
      return tensor.type.dtype == DType::f64 ? tensor.as<double>()[i]
                                             : static_cast<double>(tensor.as<float>()[i]);
    };
    for (std::int64_t i = 0; i < a[t].type.elements(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      worst = std::max(worst, std::abs(value(a[t], at) - value(b[t], at)));
    }
  }
  return worst;
}

bool identical(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  return std::ranges::equal(a, b, [](const HostTensor& x, const HostTensor& y) {
    return x.name == y.name && x.type == y.type && x.bytes == y.bytes;
  });
}

class Workloads : public ::testing::TestWithParam<std::string> {
 protected:
  static Program program(std::int64_t samples) {
    return GetParam() == "residual" ? residual_program(samples) : find_workload(GetParam()).build(samples);
  }
};

TEST_P(Workloads, learn_to_distinguish_the_classes_of_one_batch) {
  const Program p = program(8);
  const auto executable = compile(p, options("graph"));
  run_steps(*executable, p, 1, 1);
  const double first = executable->loss();
  for (int step = 1; step < 40; ++step) executable->step(0, 3e-3, step + 1);
  EXPECT_NEAR(first, std::log(10.0), 0.5);
  EXPECT_LT(executable->loss(), 0.5 * first);
}

TEST_P(Workloads, end_in_the_same_state_op_by_op_and_planned) {
  const Program p = program(6);
  const auto eager = compile(p, options("eager")), graph = compile(p, options("graph"));
  run_steps(*eager, p, 5);
  run_steps(*graph, p, 5);
  EXPECT_TRUE(identical(eager->state(), graph->state()));
  EXPECT_EQ(eager->loss(), graph->loss());
}

TEST_P(Workloads, end_in_the_same_bits_twice) {
  const Program p = program(6);
  const auto a = compile(p, options("graph")), b = compile(p, options("graph"));
  run_steps(*a, p, 20);
  run_steps(*b, p, 20);
  EXPECT_TRUE(identical(a->state(), b->state()));
}

TEST_P(Workloads, end_nearly_equal_in_fp32_and_fp64) {
  const Program p = program(6);
  const auto single = compile(p, options("graph", PrecisionKind::fp32)),
             wide = compile(p, options("graph", PrecisionKind::fp64));
  run_steps(*single, p, 3);
  run_steps(*wide, p, 3);
  const double apart = difference(single->state(), wide->state());
  EXPECT_GT(apart, 0);
  // Adam's step is up to 1e-3 for any size of the gradient, so a rounding that turns a tiny gradient shows in
  // full.
  EXPECT_LT(apart, 7e-3);
  EXPECT_NEAR(single->loss(), wide->loss(), 1e-3);
}

TEST_P(Workloads, train_in_bf16_with_fp32_parameters) {
  const Program p = program(6);
  const auto executable = compile(p, options("graph", PrecisionKind::bf16)),
             wide = compile(p, options("graph", PrecisionKind::fp64));
  run_steps(*executable, p, 3);
  run_steps(*wide, p, 3);
  for (const HostTensor& tensor : executable->state()) EXPECT_EQ(tensor.type.dtype, DType::f32);
  EXPECT_NEAR(executable->loss(), wide->loss(), 0.1);
}

TEST_P(Workloads, give_gradients_that_finite_differences_confirm) {
  const Program p = program(4);
  const Batch fed = batch(p, 5);
  std::vector<HostTensor> at = parameters(p, 2);
  const auto executable = compile(p, options("eager", PrecisionKind::fp64));
  const auto loss_at = [&](const std::vector<HostTensor>& where) {
    executable->set_state(where);
    const auto found = executable->gradients(fed.host());
    return std::ranges::find(found, "loss", &HostTensor::name)->as<double>()[0];
  };
  executable->set_state(at);
  const std::vector<HostTensor> gradients = executable->gradients(fed.host());
  for (HostTensor& parameter : at) {
    const auto gradient = std::ranges::find(gradients, "gradient/" + parameter.name, &HostTensor::name);
    ASSERT_NE(gradient, gradients.end()) << parameter.name;
    const std::size_t element = parameter.as<float>().size() / 2;
    const float old = parameter.as<float>()[element];
    const float step = 2e-5F;
    parameter.as<float>()[element] = old + step;
    const double above = loss_at(at), upper = parameter.as<float>()[element];
    parameter.as<float>()[element] = old - step;
    const double below = loss_at(at), lower = parameter.as<float>()[element];
    parameter.as<float>()[element] = old;
    EXPECT_NEAR(gradient->as<double>()[element], (above - below) / (upper - lower), 2e-4) << parameter.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, Workloads, ::testing::Values("mlp", "lenet5", "cnn", "residual"),
                         [](const auto& given) { return given.param; });

TEST(KernelExecutable, is_independent_of_threads_if_sums_are_not_split) {
  const Program p = find_workload("mlp").build(16);
  const auto one = compile(p, options("graph", PrecisionKind::fp32, 1)),
             four = compile(p, options("graph", PrecisionKind::fp32, 4));
  run_steps(*one, p, 4);
  run_steps(*four, p, 4);
  EXPECT_TRUE(identical(one->state(), four->state()));
}

TEST(KernelExecutable, gradients_change_running_statistics_and_nothing_else) {
  const Program p = residual_program(4);
  const auto executable = compile(p, options("graph"));
  const auto before = executable->state();
  executable->gradients(batch(p, 1).host());
  const auto after = executable->state();
  for (std::size_t t = 0; t < before.size(); ++t) {
    const bool running = before[t].name.find("running") != std::string::npos;
    EXPECT_EQ(before[t].bytes != after[t].bytes, running) << before[t].name;
  }
}

TEST(KernelExecutable, evaluation_changes_no_state_and_uses_running_statistics) {
  const Program p = residual_program(4);
  const auto executable = compile(p, options("graph"));
  run_steps(*executable, p, 2);
  const auto before = executable->state();
  std::vector<float> first(40), second(40);
  executable->evaluate(batch(p, 7).host(), first.data());
  executable->evaluate(batch(p, 8).host(), second.data());
  EXPECT_TRUE(identical(before, executable->state()));
  EXPECT_NE(first, second);
  executable->evaluate(batch(p, 7).host(), second.data());
  EXPECT_EQ(first, second);
}

TEST(KernelExecutable, infers_in_task_infer) {
  const Program p = find_workload("mlp").build(4);
  CompileOptions how = options("graph");
  const auto trainer = compile(p, how);
  how.task = Task::infer;
  const auto inference = compile(p, how);
  EXPECT_THAT(inference->state(), ::testing::SizeIs(4));
  run_steps(*inference, p, 2, 2);
  std::vector<float> a(40), b(40);
  trainer->evaluate(batch(p, 3).host(), a.data());
  inference->evaluate(batch(p, 3).host(), b.data());
  EXPECT_EQ(a, b);
  EXPECT_TRUE(std::isnan(inference->loss()));
}

TEST(KernelExecutable, state_restarts_where_it_is_not_named) {
  const Program p = residual_program(4);
  const auto executable = compile(p, options("graph"));
  const auto before = executable->state();
  run_steps(*executable, p, 2);
  EXPECT_FALSE(identical(before, executable->state()));
  executable->set_state(parameters(p, 1));
  EXPECT_TRUE(identical(before, executable->state()));
}

TEST(KernelExecutable, refuses_a_state_of_another_program) {
  const Program p = find_workload("mlp").build(4);
  const auto executable = compile(p, options("graph"));
  auto state = parameters(p, 1);
  state.front().type.shape = {784, 128};
  EXPECT_THROW(executable->set_state(state), CellError);
  state = parameters(p, 1);
  state.erase(state.begin());
  EXPECT_THROW(executable->set_state(state), CellError) << "a parameter has no constant to start from";
  state = parameters(p, 1);
  state.front().name = "other";
  EXPECT_THROW(executable->set_state(state), CellError);
}

TEST(KernelExecutable, refuses_a_slot_that_holds_no_batch) {
  const Program p = find_workload("mlp").build(4);
  for (const char* mode : {"graph", "eager"}) {
    const auto executable = compile(p, options(mode));
    EXPECT_THROW(executable->step(0, 1e-3, 1), std::logic_error);
    executable->stage(1, batch(p, 1).host());
    EXPECT_THROW(executable->step(0, 1e-3, 1), std::logic_error);
    executable->step(1, 1e-3, 1);
  }
}

TEST(KernelExecutable, reports_its_memory) {
  const Program p = find_workload("lenet5").build(8);
  const auto graph = compile(p, options("graph")), eager = compile(p, options("eager"));
  run_steps(*graph, p, 1);
  run_steps(*eager, p, 1);
  const auto planned = graph->memory();
  EXPECT_GT(planned.at("planned_arena"), 0);
  EXPECT_GE(planned.at("staged"), 3 * 8 * 28 * 28 * 4);
  EXPECT_GT(planned.at("persistent"), 0);
  EXPECT_GT(eager->memory().at("tensor_peak"), 0);
  EXPECT_FALSE(eager->memory().contains("planned_arena"));
}

TEST(KernelExecutable, profiles_every_node_when_asked) {
  const Program p = find_workload("mlp").build(8);
  CompileOptions how = options("graph");
  how.profile = true;
  for (const char* mode : {"graph", "eager"}) {
    how.mode = mode;
    const auto executable = compile(p, how);
    run_steps(*executable, p, 3);
    const auto times = executable->operator_times();
    EXPECT_GT(times.size(), 6U);
    for (const OperatorTime& time : times) {
      EXPECT_EQ(time.calls, 3) << time.node;
      EXPECT_GT(time.seconds, 0) << time.node;
    }
  }
}

TEST(Tf32, rounds_to_ten_bits_of_mantissa_and_ties_to_even) {
  using reference::to_tf32;
  EXPECT_EQ(to_tf32(1 + 0x1p-11f), 1);
  EXPECT_EQ(to_tf32(1 + 3 * 0x1p-11f), 1 + 0x1p-9f);
  EXPECT_EQ(to_tf32(1 + 0x1p-11f + 0x1p-23f), 1 + 0x1p-10f);
  EXPECT_EQ(to_tf32(-1 - 0x1p-11f - 0x1p-23f), -1 - 0x1p-10f);
  EXPECT_EQ(to_tf32(2 - 0x1p-23f), 2) << "into the next power of two";
  EXPECT_EQ(to_tf32(0.0f), 0);
  EXPECT_EQ(to_tf32(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
  EXPECT_EQ(to_tf32(-std::numeric_limits<float>::infinity()), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(to_tf32(std::numeric_limits<float>::quiet_NaN())));
}

// One linear layer: under tf32 it computes with rounded inputs and weights, and the unchanged bias.
TEST(Tf32, rounds_only_the_operands_of_matrix_ops) {
  const Program p = Workload{
      .name = "linear",
      .description = {},
      .source = {},
      .dataset = {},
      .sample_shape = {6},
      .classes = 10,
      .batch = 4,
      .optimizer = {},
      .learning_rate = 1e-3,
      .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
        return b.linear("fc", x, classes);
      }}.build(4);
  const auto logits = [&](PrecisionKind precision, bool rounded) {
    Batch fed = batch(p, 3);
    std::vector<HostTensor> state = parameters(p, 1);
    if (rounded) {
      for (float& x : fed.inputs) x = reference::to_tf32(x);
      for (HostTensor& tensor : state) {
        if (!tensor.name.ends_with("weight")) continue;
        for (float& w : tensor.as<float>()) w = reference::to_tf32(w);
      }
    }
    auto executable = reference::ReferenceBackend().compile(p, options("graph", precision));
    executable->set_state(state);
    std::vector<float> found(4 * 10);
    executable->evaluate(fed.host(), found.data());
    return found;
  };
  const auto tf32 = logits(PrecisionKind::tf32, false), by_hand = logits(PrecisionKind::fp32, true),
             strict = logits(PrecisionKind::fp32, false);
  double worst = 0, moved = 0;
  for (std::size_t i = 0; i < tf32.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(tf32[i]) - static_cast<double>(by_hand[i])));
    moved = std::max(moved, std::abs(static_cast<double>(tf32[i]) - static_cast<double>(strict[i])));
  }
  EXPECT_LT(worst, 1e-7);
  EXPECT_GT(moved, 1e-6);
}

TEST(ReferenceBackend, reports_what_it_does_not_support) {
  reference::ReferenceBackend backend;
  const Program p = find_workload("mlp").build(4);
  EXPECT_EQ(backend.unsupported(p, options("graph")), "");
  EXPECT_THAT(backend.unsupported(p, options("compile")), HasSubstr("'compile'"));
  EXPECT_EQ(backend.unsupported(p, options("graph", PrecisionKind::tf32)), "");
  EXPECT_THAT(backend.unsupported(find_workload("lstm").build(4), options("graph", PrecisionKind::tf32)),
              HasSubstr("[lstm"));
  CompileOptions how = options("graph");
  how.device = DeviceKind::cuda;
  EXPECT_THAT(backend.unsupported(p, how), HasSubstr("cuda"));
  EXPECT_THROW(backend.compile(p, how), Unsupported);
}

}  // namespace
}  // namespace assay
