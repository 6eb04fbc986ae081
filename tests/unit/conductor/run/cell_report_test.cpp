#include "harness/conductor/run/cell_report.hpp"
#include "harness/conductor/fork/under_test.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay {
namespace {

using ::testing::HasSubstr;

CellReport row_with(std::vector<protocol::Library> libraries) {
  CellReport row;
  row.libraries = std::move(libraries);
  row.forks.emplace_back();
  return row;
}

protocol::Hello hello() {
  protocol::Hello made;
  made.libraries = {{"oneDNN", "3.2.0", ""}};
  return made;
}

TEST(OtherLibrary, IsTheFirstThatHasAnotherVersion) {
  EXPECT_EQ(other_library(row_with({{"oneDNN", "3.2.0", ""}}), hello()), "");
  EXPECT_THAT(other_library(row_with({{"oneDNN", "3.1.0", ""}}), hello()),
              HasSubstr("oneDNN 3.2.0 is loaded, but the earlier forks used 3.1.0"));
}

TEST(OtherLibrary, IsNoneIfOneOfSeveralFilesOfThatNameIsTheSame) {
  protocol::Hello made = hello();
  made.libraries.push_back({"oneDNN", "2.7.0", "/usr/lib/libdnnl.so.2"});
  EXPECT_EQ(other_library(row_with({{"oneDNN", "3.2.0", ""}, {"oneDNN", "2.7.0", ""}}), made), "");
}

TEST(TakeHello, KeepsTheLibrariesOfAForkOnlyIfTheyDiffer) {
  CellReport row;
  protocol::Hello made = hello();
  made.libraries.push_back({"libgomp", "build-id 1", "/usr/lib/libgomp.so.1"});
  take_hello(row, made);
  row.forks.emplace_back();
  std::ranges::reverse(made.libraries);  // another order of the memory map
  take_hello(row, made);
  EXPECT_FALSE(row.forks[0].libraries);
  made.libraries[0].version = "build-id 2";
  take_hello(row, made);
  ASSERT_TRUE(row.forks[0].libraries);
  EXPECT_EQ(row.forks[0].libraries->size(), 2U);
  EXPECT_NE(row.forks[0].libraries, row.libraries);
}

TEST(MarkUnderTest, MarksTheFilesOfTheBackendAndOfTheHarness) {
  BackendDescription backend;
  backend.folder = "/somewhere/build/backends/mine";
  backend.command = {"/somewhere/bin/elsewhere", "--serve"};
  std::vector<protocol::Library> libraries{
      {"worker", "1", "/somewhere/build/backends/mine/worker"},
      {"libassay_batch", "1", "/somewhere/build/libassay_batch.so"},
      {"elsewhere", "1", "/somewhere/bin/elsewhere"},
      {"libtorch", "1", "/somewhere/build/backends/mine/venv/lib/python3.11/site-packages/torch/libtorch.so"},
      {"libother", "1", "/somewhere/build/backends/mine2/libother.so"},
      {"inside", "1", ""}};
  mark_under_test(libraries, backend);
  std::vector<bool> marked;
  for (const protocol::Library& library : libraries) marked.push_back(library.under_test);
  EXPECT_THAT(marked, ElementsAre(true, true, true, false, false, false));
  CellReport row;
  protocol::Hello made;
  made.libraries = libraries;
  take_hello(row, made);
  EXPECT_EQ(std::ranges::count_if(row.libraries, &protocol::Library::under_test), 3);
}

TEST(CheckSummary, NamesWhatLimitsTheResult) {
  Equivalence equivalence{.checked = true, .passed = true, .worst = 0.25};
  equivalence.settings.emplace().loosest = loose_bound;
  const auto text = [&] { return check_summary(Status::ok, "", equivalence); };
  EXPECT_EQ(text(), "equal to the oracle, worst error 0.25 of its bound");
  equivalence.settings->loosest = 1.01 * loose_bound;
  EXPECT_EQ(text(), "equal to the oracle, loosely, worst error 0.25 of its bound");
  equivalence.settings->timed_program_verified = false;
  EXPECT_EQ(text(), "equal to the oracle, loosely (not the timed program), worst error 0.25 of its bound");
  equivalence.settings->loosest = 0;
  EXPECT_EQ(text(), "equal to the oracle (not the timed program), worst error 0.25 of its bound");
}

struct Proof {
  bool check, checked, passed;
  const char* reason;
  int forks;
  ReasonCode code;
};

// A cell of `assay check` has no forks; one that was timed has.
TEST(ResolveStatus, IsOkOnlyIfTheRequestedProofExists) {
  const char* died = "the oracle 'reference' did not answer: the worker died of SIGSEGV";
  for (const Proof& proof :
       {Proof{true, true, true, "", 0, ReasonCode::absent},
        Proof{true, true, true, "", 1, ReasonCode::absent},
        Proof{true, false, false, died, 0, ReasonCode::not_checked},
        Proof{true, false, false, died, 1, ReasonCode::not_checked},
        // One exam was passed, and the oracle did not answer the next one.
        Proof{true, true, false, died, 2, ReasonCode::not_checked},
        Proof{true, false, false, "not reached", 0, ReasonCode::not_reached},
        Proof{false, false, false, "not requested (--check false)", 0, ReasonCode::absent},
        Proof{false, false, false, "not requested (--check false)", 1, ReasonCode::absent}}) {
    SCOPED_TRACE(std::string(proof.reason) + " " + std::to_string(proof.forks));
    Cell cell;
    cell.check = proof.check;
    CellReport row;
    row.equivalence = {proof.checked, proof.passed, 0, proof.reason, {}};
    row.forks.resize(static_cast<std::size_t>(proof.forks));
    for (Fork& fork : row.forks) fork.status = Status::ok;
    resolve_status(row, cell, {}, proof.forks);
    EXPECT_EQ(row.reason_code, proof.code);
    EXPECT_EQ(row.status == Status::ok, proof.code == ReasonCode::absent);
    if (proof.code == ReasonCode::not_checked) {
      EXPECT_THAT(row.reason, HasSubstr("SIGSEGV"));
    }
  }
}

}  // namespace
}  // namespace assay
