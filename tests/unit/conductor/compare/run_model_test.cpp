#include "harness/conductor/compare/run_model.hpp"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace assay {
namespace {

constexpr ModelSettings usual{
    .threshold = 0.0488, .confidence = 0.95, .prior_deviation = 0.02, .prior_degrees = 4};

// Cells with a baseline of `runs` runs of six forks: each run, each cell in it and each fork is off by a normal draw.
class Made {
 public:
  Made(std::size_t count, int runs, double of_runs, double of_forks, unsigned seed = 1)
      : engine_(seed), of_runs_(of_runs), of_forks_(of_forks) {
    for (std::size_t c = 0; c < count; ++c) {
      ModelCell& cell = cells.emplace_back();
      for (int r = 0; r < runs; ++r) cell.base.push_back(run());
      cell.current = run();
    }
  }
  RunValues run() {
    const double middle = of_runs_ * normal_(engine_);
    RunValues values;
    for (int fork = 0; fork < 6; ++fork) values.push_back(middle + of_forks_ * normal_(engine_));
    return values;
  }
  static void add(RunValues& run, double change) {
    for (double& value : run) value += change;
  }
  ModelResult decided(std::span<const History> histories = {}) const {
    return decide_runs(cells, histories, usual);
  }

  std::vector<ModelCell> cells;

 private:
  std::mt19937 engine_;
  std::normal_distribution<double> normal_;
  double of_runs_, of_forks_;
};

TEST(RunModel, OneBaselineIsNotTakenAsExact) {
  const ModelResult result = Made(1, 1, 0, 1e-4).decided();
  const CellChange& change = result.cells.at(0).value();
  EXPECT_NEAR(result.between_runs, 0.02, 1e-9) << "nothing but the prior";
  // Student's t with four degrees of freedom, and the variance of two runs.
  EXPECT_NEAR(change.upper - change.estimate, 2.776445 * std::sqrt(2.0) * 0.02, 1e-5);
}

TEST(RunModel, MoreBaselinesAndOtherHistoriesNarrowTheInterval) {
  const auto half = [](const ModelResult& result) {
    return result.cells.at(0)->upper - result.cells.at(0)->estimate;
  };
  const Made one(1, 1, 0.005, 0.01), five(1, 5, 0.005, 0.01);
  EXPECT_LT(half(five.decided()), half(one.decided()));
  Made other(1, 12, 0.005, 0.01, 2);
  const History history{{{other.cells[0].base}}};  // one session
  const std::vector<History> histories{history};
  EXPECT_LT(half(one.decided(histories)), half(one.decided()));
  const ModelResult noisy = Made(1, 5, 0.10, 0.01).decided();
  EXPECT_GT(half(noisy), half(five.decided()));
}

TEST(RunModel, SeparatesTheShiftOfAllCellsFromTheChangeOfOne) {
  Made made(12, 5, 0.005, 0.01);
  for (ModelCell& cell : made.cells) Made::add(cell.current, 0.10);
  Made::add(made.cells[3].current, 0.20);
  const ModelResult result = made.decided();
  ASSERT_TRUE(result.shift);
  EXPECT_NEAR(result.shift->estimate, 0.10, 0.01);
  EXPECT_LT(result.shift->lower, result.shift->estimate);
  EXPECT_NEAR(result.cells[3]->estimate, 0.20, 0.03);
  for (const std::size_t c : {0U, 1U, 2U, 11U}) EXPECT_NEAR(result.cells[c]->estimate, 0, 0.03);
  EXPECT_EQ(verdict_of(*result.cells[3], 0.0488, 0.0953), Verdict::slower);
  EXPECT_EQ(verdict_of(*result.cells[0], 0.0488, 0.0953), Verdict::same);
}

TEST(RunModel, DecidesFewCellsWithoutAShift) {
  Made made(4, 5, 0.005, 0.01);
  for (ModelCell& cell : made.cells) Made::add(cell.current, 0.10);
  const ModelResult result = made.decided();
  EXPECT_FALSE(result.shift);
  for (const auto& change : result.cells) EXPECT_NEAR(change->estimate, 0.10, 0.02);
}

TEST(RunModel, ARunThatIsSlowInAllCellsIsNoScatterOfEachCell) {
  Made made(12, 5, 0.005, 0.01);
  const double before = made.decided().between_runs;
  for (ModelCell& cell : made.cells) Made::add(cell.base[2], 0.30);
  EXPECT_NEAR(made.decided().between_runs, before, 1e-3);
  Made few(4, 5, 0.005, 0.01);
  for (ModelCell& cell : few.cells) Made::add(cell.base[2], 0.30);
  EXPECT_GT(few.decided().between_runs, 0.05) << "with few cells it is";
}

TEST(RunModel, NoticesThatOneCellChangedWithinItsBaselines) {
  Made made(12, 5, 0.005, 0.01);
  const double before = made.decided().between_runs;
  for (const std::size_t run : {3U, 4U}) Made::add(made.cells[5].base[run], 0.30);
  const ModelResult result = made.decided();
  for (std::size_t c = 0; c < 12; ++c) EXPECT_EQ(result.cells[c]->uneven, c == 5) << c;
  EXPECT_LT(result.between_runs, 2 * before) << "the other cells keep their intervals";
  EXPECT_EQ(verdict_of(*result.cells[5], 0.0488, 0.0953), Verdict::inconclusive);
}

TEST(RunModel, DecidesNothingIfSomeForksAreAsFastAsBefore) {
  for (const std::size_t slow : {2U, 3U, 4U, 5U, 6U}) {
    Made made(1, 5, 0.005, 0.01);
    for (std::size_t fork = 0; fork < slow; ++fork) made.cells[0].current[fork] += 0.7;
    const CellChange change = made.decided().cells.at(0).value();
    EXPECT_EQ(is_in_every_fork(change), slow == 6) << slow;
    EXPECT_EQ(verdict_of(change, 0.0488, 0.0953), slow == 6 ? Verdict::slower : Verdict::inconclusive)
        << slow << " of 6 forks are slower";
  }
  Made before(12, 5, 0.005, 0.01);
  for (RunValues& run : before.cells[4].base)
    for (std::size_t fork = 0; fork < 5; ++fork) run[fork] += 0.7;
  EXPECT_EQ(verdict_of(*before.decided().cells[4], 0.0488, 0.0953), Verdict::inconclusive)
      << "nor is it faster if the baselines were like that";
}

TEST(RunModel, AChangeIsLargerThanThatBetweenAnyTwoBaselines) {
  Made made(1, 5, 0.002, 0.005);
  Made::add(made.cells[0].base[1], 0.06);
  const CellChange decided = made.decided().cells.at(0).value();
  EXPECT_NEAR(decided.worst_pair, 0.06, 0.01);
  EXPECT_GE(decided.detectable, decided.worst_pair);
  CellChange change;
  change.estimate = change.of_fastest = change.with_shift = 0.08;
  change.lower = 0.02;
  change.upper = 0.14;
  for (const double worst_pair : {0.0, 0.07, 0.09}) {
    change.worst_pair = worst_pair;
    EXPECT_EQ(verdict_of(change, 0.0488, 0.2), worst_pair < 0.08 ? Verdict::slower : Verdict::inconclusive);
  }
}

TEST(RunModel, ACellWhoseTimeDidNotChangeIsNotSlowerBecauseOthersAreFaster) {
  for (const double shift : {-0.5, 0.5}) {
    Made made(5, 1, 0.002, 0.005);
    for (const std::size_t c : {0U, 1U, 2U}) Made::add(made.cells[c].current, shift);
    const ModelResult result = made.decided();
    EXPECT_NEAR(result.shift->estimate, shift, 0.02);
    EXPECT_FALSE(is_in_own_time(*result.cells[4])) << shift;
    EXPECT_EQ(verdict_of(*result.cells[4], 0.0488, 0.0953), Verdict::inconclusive) << shift;
  }
}

TEST(RunModel, ACellWhoseRunsDifferByMoreHasAWiderInterval) {
  const auto half = [](const ModelResult& result, std::size_t c) {
    return result.cells[c]->upper - result.cells[c]->estimate;
  };
  Made alike(12, 5, 0.01, 0.01), unlike = alike;
  for (ModelCell& cell : unlike.cells)
    if (&cell - unlike.cells.data() < 3)
      for (std::size_t r = 0; r < 5; ++r) Made::add(cell.base[r], r % 2 == 0 ? 0.04 : -0.04);
  const ModelResult result = unlike.decided();
  EXPECT_NEAR(half(alike.decided(), 0), half(alike.decided(), 11), 0.01);
  EXPECT_GT(half(result, 0), 1.3 * half(result, 11));
  EXPECT_GT(half(result, 11), half(alike.decided(), 11)) << "but the pooled variance is larger, too";
}

TEST(RunModel, UsesTheBaselinesThatACellHas) {
  Made made(6, 3, 0.005, 0.01);
  made.cells[0].base[1].clear();
  made.cells[1].base = {{}, {}, {}};
  made.cells[2].current.clear();
  const ModelResult result = made.decided();
  EXPECT_EQ(result.cells[0]->baselines, 2);
  EXPECT_FALSE(result.cells[1]);
  EXPECT_FALSE(result.cells[2]);
  EXPECT_NEAR(result.confidence, 1 - 0.05 / 4, 1e-12) << "four cells are compared";
  EXPECT_FALSE(decide_runs({{.base = {{0.1}}, .current = {0.2}}}, {}, usual).cells[0])
      << "one fork does not show how forks differ";
}

TEST(RunModel, PromisesAChangeThatItWouldFind) {
  const CellChange change = Made(1, 5, 0.01, 0.02).decided().cells.at(0).value();
  EXPECT_GT(change.detectable, 0.0488);
  const Spread spread = Made(1, 5, 0.01, 0.06).decided().cells.at(0)->spread;
  EXPECT_GT(spread.detectable(1, 6, 0.0488, 0.99), spread.detectable(5, 6, 0.0488, 0.99));
  EXPECT_GT(spread.detectable(5, 6, 0.0488, 0.99), spread.detectable(5, 24, 0.0488, 0.99));
  CellChange wide = change;
  wide.detectable = 0.2;
  EXPECT_EQ(verdict_of(change, 0.0488, 0.0953), Verdict::same);
  EXPECT_EQ(verdict_of(wide, 0.0488, 0.0953), Verdict::inconclusive);
}

// Sessions of two runs each that differ: two runs of different sessions differ by more than two of one session.
TEST(RunModel, SeesWhatSessionsDifferBy) {
  std::mt19937 engine(3);
  std::normal_distribution<double> normal;
  CellSessions cell;
  for (int s = 0; s < 30; ++s) {
    const double session = 0.05 * normal(engine);
    auto& runs = cell.sessions.emplace_back();
    for (int r = 0; r < 2; ++r) {
      RunValues& run = runs.emplace_back();
      for (int fork = 0; fork < 6; ++fork) run.push_back(session + 0.01 * normal(engine));
    }
  }
  const auto spread = spreads_of({cell}, usual).at(0);
  ASSERT_TRUE(spread);
  EXPECT_NEAR(std::sqrt(spread->of_runs), 0.05, 0.015);
  EXPECT_NEAR(std::sqrt(spread->of_forks), 0.01, 0.002);
  EXPECT_LE(spread->run_degrees, 40) << "sixty runs of thirty sessions are not sixty sessions";
}

}  // namespace
}  // namespace assay
