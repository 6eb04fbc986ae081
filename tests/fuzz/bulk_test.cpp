// fuzz_bulk finds what breaks a target, and repeats it.
#include "tests/fuzz/bulk.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/error.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

std::vector<std::string> seen;

const Registration keeps("keeps", [](Input input) { seen.emplace_back(text_of(input)); });
const Registration refuses("refuses", [](Input) { throw Error("no"); });
const Registration breaks("breaks", [](Input input) {
  require(text_of(input).find("null") == std::string_view::npos, "no null");
});
const Registration crashes("crashes", [](Input input) {
  if (!input.empty()) std::abort();
});

class Bulk : public ::testing::Test {
 protected:
  void SetUp() override {
    seen.clear();
    for (const Target& target : targets()) {
      fs::create_directories(corpus_ / target.name);
      std::ofstream(corpus_ / target.name / "sample") << "{\"steps\": 10, \"name\": \"a\"}";
    }
  }
  void TearDown() override { fs::remove_all(corpus_); }

  int run(std::vector<std::string> words) {
    words.insert(words.end(), {"--corpus", corpus_.string()});
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    return run_bulk(pointers);
  }

  fs::path corpus_ = fs::temp_directory_path() / ("assay_bulk_" + std::to_string(::getpid()));
};

TEST_F(Bulk, MakesTheSameInputsFromTheSameSeed) {
  EXPECT_EQ(run({"--inputs", "100", "--seed", "7", "keeps"}), 0);
  const std::vector<std::string> first = std::exchange(seen, {});
  ASSERT_EQ(first.size(), 100u);
  EXPECT_EQ(run({"--inputs", "100", "--seed", "7", "keeps"}), 0);
  EXPECT_EQ(std::exchange(seen, {}), first);
  EXPECT_EQ(run({"--inputs", "1", "--seed", "7", "--from", "42", "keeps"}), 0);
  EXPECT_EQ(seen, std::vector(1, first[42]));
  std::vector<std::string> different = first;
  std::ranges::sort(different);
  EXPECT_GT(std::distance(different.begin(), std::unique(different.begin(), different.end())), 90);
}

TEST_F(Bulk, TakesRefusals) { EXPECT_EQ(run({"--inputs", "100", "refuses"}), 0); }

TEST_F(Bulk, PrintsFindingsWithTheCommandThatRepeatsThem) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run({"--inputs", "5000", "--seed", "3", "breaks"}), 1);
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(told,
              AllOf(HasSubstr("breaks: no null"), HasSubstr("again: fuzz_bulk --inputs 1 --seed 3 --from ")));
  const std::size_t at = told.find("--from ") + 7;
  const std::string number = told.substr(at, told.find(' ', at) - at);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run({"--inputs", "1", "--seed", "3", "--from", number, "breaks"}), 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("--from " + number + " breaks"));
}

TEST_F(Bulk, ACrashPrintsTheCommandThatRepeatsIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run({"--inputs", "100", "--seed", "5", "crashes"}),
               "again: fuzz_bulk --inputs 1 --seed 5 --from [0-9]+ crashes");
}

TEST_F(Bulk, RefusesOtherWords) {
  for (const char* word : {"no_such_target", "--no-such-option"})
    EXPECT_THROW(run({word, "1"}), std::invalid_argument) << word;
  EXPECT_THROW(run({"--inputs", "many"}), std::invalid_argument);
}

}  // namespace
}  // namespace assay::fuzz
