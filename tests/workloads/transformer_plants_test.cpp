// Each mistake that is planted into an op of a transformer is caught, and the network without one passes.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/reference/reference_backend.hpp"
#include "tests/workloads/checked_cell.hpp"
#include "tests/workloads/planted/transformer_plants.hpp"

namespace assay {
namespace {

constexpr std::int64_t batch = 24;  // of 4 distinct samples

class TransformerPlant : public ::testing::TestWithParam<std::string_view> {
 protected:
  static const Plant& plant() { return *std::ranges::find(transformer_plants(), GetParam(), &Plant::name); }
  static void expect_caught(const Wronged& wronged) {
    PlantedBackend backend(plant(), wronged);
    const Judged judged = judge_backend(backend, transformer_trap_program(batch), {Task::train, "graph"});
    ASSERT_GT(backend.planted(), 0) << "no op of the graph has the mistake";
    EXPECT_FALSE(judged.passed()) << plant().what << '\n' << judged.text();
    EXPECT_GT(judged.worst(), 3) << plant().what << ": caught by a hair\n" << judged.text();
  }
};

TEST_P(TransformerPlant, IsCaught) { expect_caught(wronged_reference()); }

INSTANTIATE_TEST_SUITE_P(Plants, TransformerPlant, ::testing::ValuesIn([] {
                           std::vector<std::string_view> names;
                           for (const Plant& plant : transformer_plants()) names.push_back(plant.name);
                           return names;
                         }()),
                         [](const auto& test) { return std::string(test.param); });

TEST(TransformerPlants, AreAllThatIsWrongWithTheNetwork) {
  reference::ReferenceBackend backend;
  for (const PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16, PrecisionKind::tf32}) {
    for (const Task task : {Task::train, Task::infer}) {
      const Judged judged =
          judge_backend(backend, transformer_trap_program(batch), {task, "graph", precision});
      EXPECT_TRUE(judged.passed()) << to_string(precision) << '\n' << judged.text();
    }
  }
}

// Those that are larger than its rounding.
TEST(TransformerPlants, AreCaughtUnderTheWideBoundsOfBf16) {
  for (const char* name :
       {"mask_off_by_one", "unmasked", "padding_counts", "dropped_shift", "coupled_decay", "unclipped"}) {
    const Plant& plant = *std::ranges::find(transformer_plants(), name, &Plant::name);
    PlantedBackend backend(plant);
    const Judged judged =
        judge_backend(backend, transformer_trap_program(batch), {Task::train, "graph", PrecisionKind::bf16});
    EXPECT_FALSE(judged.passed()) << name << '\n' << judged.text();
  }
}

}  // namespace
}  // namespace assay
