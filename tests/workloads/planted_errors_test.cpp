// Each planted mistake is caught, and the network without one passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/reference/reference_backend.hpp"
#include "tests/workloads/checked_cell.hpp"
#include "tests/workloads/planted/planted_backend.hpp"
#include "tests/workloads/trap_program.hpp"

namespace assay {
namespace {

constexpr std::int64_t batch = 24;  // of 8 distinct samples

OptimizerSpec optimizer_of(const Plant& plant, std::string_view kind) {
  OptimizerSpec optimizer;
  optimizer.kind = kind;
  optimizer.weight_decay = plant.weight_decay;
  return optimizer;
}

class PlantedError : public ::testing::TestWithParam<std::string_view> {};

TEST_P(PlantedError, is_caught) {
  const Plant& plant = find_plant(GetParam());
  PlantedBackend backend(plant);
  for (const char* mode : {"eager", "graph"}) {
    const Judged judged =
        judge_backend(backend, trap_program(batch, optimizer_of(plant, plant.optimizer)), {"train", mode});
    EXPECT_FALSE(judged.passed()) << plant.what << " in mode " << mode << '\n' << judged.text();
    EXPECT_GT(judged.worst(), 3) << plant.what << ": caught by a hair\n" << judged.text();
    std::printf("%s %s: %.0e %.0e\n", mode, plant.name.data(), judged.check.worst, judged.verify.worst);
    EXPECT_EQ(judged.check.passed,
              plant.timed_only || plant.name == "later_steps" || plant.name == "adam_step_count");
  }
}

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
    for (const char* precision : {"fp32", "bf16"}) {
      OptimizerSpec optimizer;
      optimizer.kind = kind;
      optimizer.weight_decay = 0.1;
      const Judged judged =
          judge_backend(backend, trap_program(batch, optimizer), {"train", "graph", precision});
      EXPECT_TRUE(judged.passed()) << kind << ' ' << precision << '\n' << judged.text();
    }
  }
}

TEST(PlantedErrors, are_caught_with_every_optimizer_when_they_stop_the_training) {
  for (const char* name : {"no_update", "double_update", "stale_gradient", "later_steps"}) {
    const Plant& plant = find_plant(name);
    PlantedBackend backend(plant);
    for (const char* kind : {"sgd", "rmsprop"}) {
      const Judged judged = judge_backend(backend, trap_program(batch, optimizer_of(plant, kind)), {});
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
    const Program program = trap_program(batch, optimizer_of(plant, plant.optimizer));
    const Judged judged = judge_backend(backend, program, {"train", "graph", "bf16"});
    EXPECT_FALSE(judged.passed()) << name << '\n' << judged.text();
    EXPECT_GT(judged.worst(), 3) << name << ": caught by a hair\n" << judged.text();
  }
}

TEST(PlantedErrors, are_caught_in_inference) {
  for (const char* name : {"fused_path", "batch_size", "pool_divisor", "batch_norm_epsilon", "tf32"}) {
    const Plant& plant = find_plant(name);
    PlantedBackend backend(plant);
    const Judged judged = judge_backend(backend, trap_program(batch, {}), {"infer"});
    EXPECT_FALSE(judged.passed()) << name << '\n' << judged.text();
    EXPECT_EQ(judged.check.passed, plant.timed_only);
  }
}

}  // namespace
}  // namespace assay
