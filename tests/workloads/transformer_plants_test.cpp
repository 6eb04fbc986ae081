// Each mistake in a transformer is caught, and the network without one passes.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/workloads/altered_backend.hpp"
#include "tests/workloads/checked_cell.hpp"
#include "tests/workloads/our_backends.hpp"
#include "tests/workloads/planted/transformer_plants.hpp"
#include "tests/workloads/planted/transformer_program.hpp"

namespace assay {
namespace {

constexpr std::int64_t text_batch = 24;  // of 4 distinct samples
constexpr const char* modes[] = {"graph", "eager"};

class TransformerPlant : public ::testing::TestWithParam<std::string_view> {
 protected:
  static const Plant& plant() { return *std::ranges::find(transformer_plants(), GetParam(), &Plant::name); }
  static void expect_caught(const Wronged& wronged) {
    for (const char* mode : modes) {
      SCOPED_TRACE(mode);
      PlantedBackend backend(plant(), wronged);
      const Judged judged = judge_backend(backend, transformer_trap_program(text_batch), {Task::train, mode});
      EXPECT_GT(backend.planted(), 0) << "no op of the graph has the mistake";
      EXPECT_FALSE(judged.passed()) << plant().what << '\n' << judged.text();
      EXPECT_GT(judged.worst(), 3) << plant().what << ": caught by a hair\n" << judged.text();
    }
  }
};

TEST_P(TransformerPlant, IsCaughtInTheReference) { expect_caught(wronged_reference()); }

TEST_P(TransformerPlant, IsCaughtInOnednn) {
  const Wronged wronged = wronged_onednn();
  if (!wronged.backend) GTEST_SKIP() << "oneDNN was not built";
  expect_caught(wronged);
}

INSTANTIATE_TEST_SUITE_P(Plants, TransformerPlant, ::testing::ValuesIn([] {
                           std::vector<std::string_view> names;
                           for (const Plant& plant : transformer_plants()) names.push_back(plant.name);
                           return names;
                         }()),
                         [](const auto& test) { return std::string(test.param); });

// A plant sees only operands and results in f32, and these ops have such ones in every precision. The tanh formula
// of GELU and the place of epsilon are smaller than the rounding of bf16.
TEST(TransformerPlants, AreCaughtUnderTheWideBoundsOfBf16) {
  for (const char* name :
       {"mask_off_by_one", "unmasked", "padding_counts", "dropped_shift", "coupled_decay", "unclipped"}) {
    const Plant& plant = *std::ranges::find(transformer_plants(), name, &Plant::name);
    for (const Wronged& wronged : {wronged_reference(), wronged_onednn()}) {
      if (!wronged.backend) continue;
      PlantedBackend backend(plant, wronged);
      const Judged judged = judge_backend(backend, transformer_trap_program(text_batch),
                                          {Task::train, "graph", PrecisionKind::bf16});
      EXPECT_GT(backend.planted(), 0) << name;
      EXPECT_FALSE(judged.passed()) << name << '\n' << judged.text();
    }
  }
}

class TransformerProgram
    : public ::testing::TestWithParam<std::tuple<std::string, WrongProgram, PrecisionKind>> {};

TEST_P(TransformerProgram, IsCaughtIfItIsWrong) {
  const auto& [name, mistake, precision] = GetParam();
  const Program right = transformer_trap_program(text_batch, mistake.right);
  for (const char* mode : modes) {
    SCOPED_TRACE(mode);
    AlteredBackend backend(name, transformer_trap_program(text_batch, mistake.wrong));
    const Judged judged = judge_backend(backend, right, {Task::train, mode, precision});
    EXPECT_FALSE(judged.passed()) << mistake.what << '\n' << judged.text();
    EXPECT_GT(judged.worst(), 3) << mistake.what << ": caught by a hair\n" << judged.text();
  }
}

TEST_P(TransformerProgram, PassesIfItIsRight) {
  const auto& [name, mistake, precision] = GetParam();
  const Program right = transformer_trap_program(text_batch, mistake.right);
  for (const Task task : {Task::train, Task::infer}) {
    for (const char* mode : modes) {
      const Judged judged = judge_backend(*make_backend(name), right, {task, mode, precision});
      EXPECT_TRUE(judged.passed()) << mode << '\n' << judged.text();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, TransformerProgram,
                         ::testing::Combine(::testing::ValuesIn(our_backends()),
                                            ::testing::ValuesIn(wrong_programs()),
                                            ::testing::Values(PrecisionKind::fp32, PrecisionKind::bf16)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::string(std::get<1>(test.param).name) +
                                  "_" + std::string(to_string(std::get<2>(test.param)));
                         });

TEST(TransformerPlants, AreAllThatIsWrongWithTheNetworkInTf32) {
  for (const Task task : {Task::train, Task::infer}) {
    const Judged judged = judge_backend(*make_backend("reference"), transformer_trap_program(text_batch),
                                        {task, "graph", PrecisionKind::tf32});
    EXPECT_TRUE(judged.passed()) << judged.text();
  }
}

}  // namespace
}  // namespace assay
