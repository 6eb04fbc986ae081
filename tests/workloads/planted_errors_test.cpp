// Each planted mistake is caught, and the network without one passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/reference/reference_backend.hpp"
#include "tests/workloads/checked_cell.hpp"
#include "tests/workloads/planted/planted_backend.hpp"
#include "tests/workloads/planted/transformer_program.hpp"
#include "tests/workloads/trap_program.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

constexpr std::int64_t planted_batch = 24;  // of 4 distinct samples

OptimizerSpec optimizer_of(const Plant& plant, std::string_view kind) {
  OptimizerSpec optimizer;
  optimizer.kind = kind;
  optimizer.weight_decay = plant.in.weight_decay;
  return optimizer;
}

// On the program that shows it, or on `kind` of optimizer.
Judged judge(PlantedBackend& backend, const Plant& plant, const CheckedCell& cell = {},
             std::string_view kind = {}) {
  switch (plant.in.network) {
    case PlantedNetwork::traps:
      break;
    case PlantedNetwork::transformer:
      return judge_backend(backend, transformer_trap_program(planted_batch), cell);
    case PlantedNetwork::decoder:
      return judge_backend(backend, find_workload("nanogpt").build_small(Task::decode), cell);
  }
  const OptimizerSpec optimizer = optimizer_of(plant, kind.empty() ? plant.in.optimizer : kind);
  return judge_backend(backend, trap_program(planted_batch, optimizer), cell);
}

Task task_of(const Plant& plant) {
  return plant.in.network == PlantedNetwork::decoder ? Task::decode : Task::train;
}

class PlantedError : public ::testing::TestWithParam<std::string_view> {};

// In every mode whose graph has an op that it is in. Returns in how many.
int expect_caught(const Plant& plant, const Wronged& wronged) {
  int modes = 0;
  for (const char* mode : {"eager", "graph"}) {
    PlantedBackend backend(plant, wronged);
    const Judged judged = judge(backend, plant, {task_of(plant), mode});
    if (backend.planted() == 0) {
      EXPECT_TRUE(judged.passed()) << plant.what << " in mode " << mode << '\n' << judged.text();
      continue;
    }
    ++modes;
    EXPECT_FALSE(judged.passed()) << plant.what << " in mode " << mode << '\n' << judged.text();
    EXPECT_GT(judged.worst(), 3) << plant.what << ": caught by a hair\n" << judged.text();
    std::printf("%s %s: %.0e\n", mode, plant.name.data(), judged.worst());
  }
  return modes;
}

TEST_P(PlantedError, is_caught) {
  const Plant& plant = find_plant(GetParam());
  EXPECT_EQ(expect_caught(plant, wronged_reference()), plant.in.fused_only ? 0 : 2)
      << "the reference fuses nothing";
}

#ifdef ASSAY_TEST_ONEDNN
TEST_P(PlantedError, is_caught_in_kernels_of_onednn) {
  const Plant& plant = find_plant(GetParam());
  EXPECT_GE(expect_caught(plant, wronged_onednn()), plant.in.network == PlantedNetwork::traps ? 1 : 2)
      << "no op of its graphs has the mistake";
}

TEST(PlantedErrors, are_in_the_fused_ops_and_optimizers_of_onednn) {
  for (const char* name :
       {"fused_relu", "stale_gradient", "double_update", "batch_size", "padding", "tf32"}) {
    const Plant& plant = find_plant(name);
    PlantedBackend backend(plant, wronged_onednn());
    const Judged judged = judge(backend, plant);
    EXPECT_GT(backend.planted(), 0) << name;
    EXPECT_FALSE(judged.passed()) << name;
  }
}

TEST(PlantedErrors, are_all_that_is_wrong_with_the_wrapped_kernels_of_onednn) {
  const Plant nothing{
      "nothing",
      "a kernel that is wrapped and right",
      {"convolution", "linear", "linear_weight_gradient", "convolution_weight_gradient", "adam", "relu"},
      [](PlantedCall& call) { call.run(); }};
  for (const char* mode : {"eager", "graph"}) {
    PlantedBackend backend(nothing, wronged_onednn());
    const Judged judged = judge_backend(backend, trap_program(planted_batch, {}), {Task::train, mode});
    EXPECT_GT(backend.planted(), 0);
    EXPECT_TRUE(judged.passed()) << mode << '\n' << judged.text();
  }
}
#endif

std::vector<std::string_view> names() {
  std::vector<std::string_view> result;
  for (const Plant& plant : all_plants()) result.push_back(plant.name);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Plants, PlantedError, ::testing::ValuesIn(names()),
                         [](const auto& test) { return std::string(test.param); });

TEST(PlantedErrors, are_all_that_is_wrong_with_the_network) {
  reference::ReferenceBackend backend;
  for (const char* kind : {"adam", "sgd", "rmsprop"}) {
    for (PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16}) {
      OptimizerSpec optimizer;
      optimizer.kind = kind;
      optimizer.weight_decay = 0.1;
      const Judged judged =
          judge_backend(backend, trap_program(planted_batch, optimizer), {Task::train, "graph", precision});
      EXPECT_TRUE(judged.passed()) << kind << ' ' << to_string(precision) << '\n' << judged.text();
    }
  }
}

TEST(PlantedErrors, are_caught_with_every_optimizer_when_they_stop_the_training) {
  for (const char* name : {"no_update", "double_update", "stale_gradient", "later_steps"}) {
    const Plant& plant = find_plant(name);
    PlantedBackend backend(plant);
    for (const char* kind : {"sgd", "rmsprop"}) {
      const Judged judged = judge(backend, plant, {}, kind);
      EXPECT_FALSE(judged.passed()) << name << ' ' << kind << '\n' << judged.text();
    }
  }
}

// Those that are larger than its rounding; a mistake of a tenth of a percent is found in fp32.
TEST(PlantedErrors, are_caught_under_the_wide_bounds_of_bf16) {
  for (const char* name :
       {"loss_summed", "double_gradient", "no_update", "double_update", "stale_gradient", "later_steps",
        "adam_bias_correction", "adam_step_count", "decoupled_decay", "running_statistics",
        "momentum_convention", "rate_in_velocity", "rmsprop_decay"}) {
    const Plant& plant = find_plant(name);
    PlantedBackend backend(plant);
    const Judged judged = judge(backend, plant, {Task::train, "graph", PrecisionKind::bf16});
    EXPECT_FALSE(judged.passed()) << name << '\n' << judged.text();
    EXPECT_GT(judged.worst(), 3) << name << ": caught by a hair\n" << judged.text();
  }
}

void expect_caught_in_bf16(std::string_view name, const char* mode) {
  const Plant& plant = find_plant(name);
  for (const Wronged& wronged : {wronged_reference(), wronged_onednn()}) {
    if (!wronged.backend) continue;
    PlantedBackend backend(plant, wronged);
    const Judged judged = judge(backend, plant, {task_of(plant), mode, PrecisionKind::bf16});
    EXPECT_GT(backend.planted(), 0) << name;
    EXPECT_FALSE(judged.passed()) << name << '\n' << judged.text();
    EXPECT_GT(judged.worst(), 3) << name << ": caught by a hair\n" << judged.text();
  }
}

// The tanh formula of GELU and the place of epsilon are smaller than the rounding of bf16.
TEST(PlantedErrors, of_transformers_are_caught_under_the_wide_bounds_of_bf16) {
  for (const char* name :
       {"mask_off_by_one", "unmasked", "padding_counts", "dropped_shift", "coupled_decay", "unclipped"})
    expect_caught_in_bf16(name, "graph");
}

TEST(PlantedErrors, of_caches_are_caught_under_the_wide_bounds_of_bf16) {
  for (const char* name :
       {"cache_late", "token_late", "cache_not_written", "sees_next_place", "hides_itself"})
    for (const char* mode : {"graph", "eager"}) expect_caught_in_bf16(name, mode);
}

// The weights that strict fp32 calls wrong are what this policy is.
TEST(PlantedErrors, are_distinguished_from_the_rounding_of_tf32) {
  PlantedBackend rounded(find_plant("tf32"));
  const Judged honest =
      judge_backend(rounded, trap_program(planted_batch, {}), {Task::train, "graph", PrecisionKind::tf32});
  EXPECT_TRUE(honest.passed()) << honest.text();
  EXPECT_GT(honest.worst(), 0.02) << "bounds that nothing can reach hold nothing";
  for (const char* name :
       {"padding", "pool_divisor", "loss_summed", "double_gradient", "no_update", "double_update",
        "stale_gradient", "later_steps", "running_statistics", "adam_bias_correction"}) {
    const Plant& plant = find_plant(name);
    PlantedBackend backend(plant);
    const Judged judged = judge(backend, plant, {Task::train, "graph", PrecisionKind::tf32});
    EXPECT_FALSE(judged.passed()) << name << '\n' << judged.text();
    EXPECT_GT(judged.worst(), 3) << name << ": caught by a hair\n" << judged.text();
  }
}

TEST(PlantedErrors, are_caught_in_inference) {
  for (const char* name : {"fused_path", "batch_size", "pool_divisor", "batch_norm_epsilon", "tf32"}) {
    const Plant& plant = find_plant(name);
    PlantedBackend backend(plant);
    const Judged judged = judge(backend, plant, {Task::infer});
    EXPECT_FALSE(judged.passed()) << name << '\n' << judged.text();
  }
}

}  // namespace
}  // namespace assay
