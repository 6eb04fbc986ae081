#include "harness/conductor/run/progress.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ProgressTest : public ::testing::Test {
 protected:
  ~ProgressTest() override {
    std::fclose(out_);
    std::free(text_);
  }
  std::string text() {
    std::fflush(out_);
    return {text_, size_};
  }
  void two_forks(Progress& progress) {
    progress.plan(2);
    progress.begin("mlp/fast check");
    progress.end("equal", true, false);
    progress.begin("mlp/fast fork 1 of 2");
    progress.steps(50, 100);
    progress.end("ok, 2 ms a step", true, true);
    progress.begin("mlp/fast fork 2 of 2");
    progress.end("crashed: SIGSEGV", false, true);
  }

  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* out_ = ::open_memstream(&text_, &size_);
};

TEST_F(ProgressTest, away_from_a_terminal_it_writes_a_plain_line_for_each_end) {
  Progress progress(out_, false);
  two_forks(progress);
  EXPECT_THAT(text(), Not(HasSubstr("\033")));
  EXPECT_THAT(text(), Not(HasSubstr("\r")));
  EXPECT_THAT(text(), StartsWith("mlp/fast check: equal ("));
  EXPECT_THAT(text(), HasSubstr("\n[1/2] mlp/fast fork 1 of 2: ok, 2 ms a step ("));
  EXPECT_THAT(text(), HasSubstr("about "));
  EXPECT_THAT(text(), HasSubstr("\n[2/2] mlp/fast fork 2 of 2: crashed: SIGSEGV ("));
  EXPECT_THAT(text(), EndsWith(")\n")) << "nothing is left after the last";
}

TEST_F(ProgressTest, on_a_terminal_one_line_renews_itself) {
  Progress progress(out_, true);
  two_forks(progress);
  EXPECT_THAT(text(), HasSubstr("\r\033[K[0/2] mlp/fast fork 1 of 2: starts"));
  EXPECT_THAT(text(), Not(HasSubstr("ok, 2 ms a step"))) << "what went well needs no line of its own";
  EXPECT_THAT(text(), HasSubstr("[2/2] mlp/fast fork 2 of 2: crashed: SIGSEGV ("));
}

TEST_F(ProgressTest, quiet_says_nothing) {
  Progress progress = Progress::quiet();
  two_forks(progress);
}

}  // namespace
}  // namespace assay
