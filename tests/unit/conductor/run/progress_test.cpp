#include "harness/conductor/run/progress.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "harness/report/report_json.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

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

TEST_F(ProgressTest, ShowsWhatWasLearntSoFar) {
  Progress plain(out_, false);
  plain.learnt("onednn graph, jax jit 5.4x");
  EXPECT_EQ(text(), "so far: onednn graph, jax jit 5.4x\n");
  Progress terminal(out_, true);
  terminal.learnt("onednn graph, jax jit 5.4x");
  terminal.begin("mlp/fast round 2");
  EXPECT_THAT(text(), HasSubstr("mlp/fast round 2: starts; so far onednn graph, jax jit 5.4x"));
}

TEST_F(ProgressTest, quiet_says_nothing) {
  Progress progress = Progress::quiet();
  two_forks(progress);
}

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* set = std::getenv("TMPDIR")) before_ = set;
    fs::create_directory(temporary_);
    ::setenv("TMPDIR", temporary_.c_str(), 1);
  }
  void TearDown() override {
    before_.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before_.c_str(), 1);
  }
  // The only file in the temporary folder; empty without a file.
  fs::path copy() const {
    for (const auto& entry : fs::recursive_directory_iterator(temporary_))
      if (entry.is_regular_file()) return entry.path();
    return {};
  }
  static std::string message_of(const std::function<void()>& write) {
    try {
      write();
    } catch (const Error& error) {
      return error.what();
    }
    return "written";
  }

  const TemporaryFolder folder_;
  const fs::path temporary_ = folder_ / "tmp";
  std::string before_;
  Report report_;
};

TEST_F(JournalTest, KeepsACopyOfWhatADeviceDoesNotTake) {
  Journal journal("/dev/full");
  const std::string message = message_of([&] { journal.finish(report_); });
  ASSERT_FALSE(copy().empty()) << message;
  EXPECT_THAT(message, HasSubstr("No space left"));
  EXPECT_THAT(message, HasSubstr("the report is in " + copy().string()));
  EXPECT_EQ(read_text(copy()), report_text(report_));
}

TEST_F(JournalTest, KeepsACopyIfTheReportIsNoFileAnyMore) {
  for (const char* made : {"pipe", "link"}) {
    const fs::path place = folder_ / made;
    Journal journal(place);
    journal.save(report_);
    fs::remove(place);
    if (made == std::string_view("pipe"))
      ASSERT_EQ(::mkfifo(place.c_str(), 0600), 0);
    else
      fs::create_symlink("/dev/null", place);
    EXPECT_THAT(message_of([&] { journal.finish(report_); }), HasSubstr("is none any more"));
    ASSERT_FALSE(copy().empty());
    EXPECT_EQ(read_text(copy()), report_text(report_));
    fs::remove_all(copy().parent_path());
  }
}

TEST_F(JournalTest, ReplacesTheCopyAndRemovesItWhenTheReportIsWrittenAgain) {
  const fs::path place = folder_ / "place";
  fs::create_directory(place);
  Journal journal(place / "report.json");
  fs::remove_all(place);
  EXPECT_THAT(message_of([&] { journal.save(report_); }), HasSubstr("the report is in"));
  const fs::path first = copy();
  report_.run.complete = false;
  EXPECT_THAT(message_of([&] { journal.save(report_); }), HasSubstr(first.string()));
  EXPECT_EQ(read_text(first), report_text(report_));
  fs::create_directory(place);
  EXPECT_EQ(message_of([&] { journal.save(report_); }), "written");
  EXPECT_EQ(read_text(place / "report.json"), report_text(report_));
  EXPECT_TRUE(fs::is_empty(temporary_));
}

}  // namespace
}  // namespace assay
