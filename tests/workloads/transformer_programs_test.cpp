// Each wrong program of a transformer is caught, and the right one passes.
#include <gtest/gtest.h>

#include "tests/workloads/altered_backend.hpp"
#include "tests/workloads/checked_cell.hpp"
#include "tests/workloads/our_backends.hpp"
#include "tests/workloads/planted/transformer_program.hpp"

namespace assay {
namespace {

constexpr std::int64_t text_batch = 24;  // of 4 distinct samples
constexpr const char* modes[] = {"graph", "eager"};

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

TEST(TransformerPrograms, PassInTf32) {
  for (const Task task : {Task::train, Task::infer}) {
    const Judged judged = judge_backend(*make_backend("reference"), transformer_trap_program(text_batch),
                                        {task, "graph", PrecisionKind::tf32});
    EXPECT_TRUE(judged.passed()) << judged.text();
  }
}

}  // namespace
}  // namespace assay
