// Whole sequential comparisons with a worker that declares its times, and one that goes wrong.
#include "harness/conductor/compare/ab.hpp"

#include <stdlib.h>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/cli/exit_code.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/metrics.hpp"
#include "harness/report/report_json.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using cli::exit_code;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const MachineRecord machine{.cpu = {.model = "a processor", .allowed = 2}};

class Ab : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("ASSAY_CACHE", (folder_ / "cache").c_str(), 1); }

  AbArm arm(const std::string& mode, const char* out) {
    AbArm made;
    made.registries.backends = find_backends_in({FAULT_BACKENDS}, {});
    made.request.config = config_from_json(
        nlohmann::json::parse(R"({"workload": "mlp", "dataset": "synthetic", "backend": "fault", "threads": 1,
      "samples": 512, "check": false, "blocks": 3, "mode": ")" +
                              mode + "\"}"),
        "test.json");
    made.request.environment = machine;
    made.request.out = folder_ / out;
    made.cells = cells_of(made.request, made.registries);
    return made;
  }
  AbOutcome run(const std::string& a, const std::string& b, const MachineRecord& later = machine) {
    Progress progress = Progress::quiet();
    return run_ab(arm(a, "a.json"), arm(b, "b.json"), {"mode"}, settings_, [&] { return later; }, progress);
  }

  TemporaryFolder folder_;
  AbSettings settings_;
};

TEST_F(Ab, equal_sides_are_the_same_after_the_first_look) {
  const AbOutcome outcome = run("good", "other");
  ASSERT_EQ(outcome.comparison.cells.size(), 1U);
  const CellVerdict& cell = outcome.comparison.cells[0];
  EXPECT_EQ(cell.verdict, Verdict::same) << cell.reason;
  EXPECT_EQ(cell.looks, 1);
  EXPECT_EQ(outcome.rounds, 8);
  EXPECT_THAT(cell.id, HasSubstr("/{good|other}/"));
  EXPECT_EQ(exit_code(outcome), 0);
}

TEST(AbTime, IsToldAfterOneRoundWhenItWillNotDo) {
  EXPECT_THAT(too_little_time(8, 10, 40),
              HasSubstr("the first look is after 8 rounds, in about 80 s, and the time ends after 40 s"));
  EXPECT_THAT(too_little_time(8, 5, 40), IsEmpty());
}

TEST_F(Ab, confirms_a_slower_side_with_fresh_rounds) {
  const AbOutcome outcome = run("good", "heavier");
  const CellVerdict& cell = outcome.comparison.cells.at(0);
  EXPECT_EQ(cell.verdict, Verdict::slower) << cell.reason;
  EXPECT_NEAR(*cell.ratio, 1.2, 1e-6);
  EXPECT_EQ(outcome.rounds, 14);
  EXPECT_EQ(exit_code(outcome), 3);
  for (const char* file : {"a.json", "b.json"}) {
    const Report report = read_report(folder_ / file);
    EXPECT_THAT(invariant_violations(report), IsEmpty());
    EXPECT_EQ(report.cells.at(0).forks.size(), 14U);
    EXPECT_EQ(report.cells.at(0).status, Status::ok);
  }
  EXPECT_EQ(run("heavier", "good").comparison.cells.at(0).verdict, Verdict::faster);
}

TEST_F(Ab, both_sides_of_a_round_have_its_seed) {
  const AbOutcome outcome = run("good", "other");
  const auto &a = outcome.a.cells.at(0).forks, &b = outcome.b.cells.at(0).forks;
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].seed, b[i].seed);
  EXPECT_NE(a[0].seed, a[1].seed);
}

TEST_F(Ab, a_side_that_falls_is_broken_and_costs_no_further_round) {
  const AbOutcome outcome = run("good", "killed");
  EXPECT_EQ(outcome.comparison.cells.at(0).verdict, Verdict::broken);
  EXPECT_LE(outcome.rounds, 2);
  EXPECT_EQ(exit_code(outcome), 3);
  const AbOutcome neither = run("killed", "crash");
  EXPECT_EQ(neither.comparison.cells.at(0).verdict, Verdict::unmeasured);
  EXPECT_EQ(exit_code(neither), 4);
}

TEST_F(Ab, IsIncompleteIfTheFirstSideFallsInALaterRound) {
  const AbOutcome outcome = run("crash_once", "good");
  EXPECT_EQ(outcome.comparison.cells.at(0).verdict, Verdict::added);
  EXPECT_EQ(exit_code(outcome), 4);
}

TEST_F(Ab, is_incomplete_without_time_for_a_round) {
  settings_.max_seconds = 1e-3;
  const AbOutcome outcome = run("good", "heavier");
  EXPECT_TRUE(outcome.out_of_time);
  EXPECT_EQ(outcome.rounds, 0);
  EXPECT_EQ(outcome.comparison.cells.at(0).verdict, Verdict::unmeasured);
  EXPECT_EQ(exit_code(outcome), 4);
}

TEST_F(Ab, a_machine_that_became_another_makes_the_times_incomparable) {
  MachineRecord later = machine;
  later.cpu.allowed = 1;
  EXPECT_EQ(exit_code(run("good", "other", later)), 5);
}

}  // namespace
}  // namespace assay
