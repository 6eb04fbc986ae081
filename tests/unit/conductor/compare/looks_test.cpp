#include "harness/conductor/compare/looks.hpp"

#include <cmath>
#include <random>
#include <vector>

#include <gmock/gmock.h>

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Looks at a pair whose B is `ratio(round)` times its A, each side with its own noise, until it is decided.
template <typename Ratio>
Looks run(const LookPlan& plan, double spread, unsigned seed, Ratio ratio, int most = 1000) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, spread);
  Looks looks(plan, {});
  for (int round = 0; round < most && !looks.decided(); ++round)
    looks.add(1e-3 * std::exp(normal(engine)), 1e-3 * ratio(round) * std::exp(normal(engine)));
  return looks;
}

TEST(LookPlan, shares_the_error_among_cells_and_looks) {
  const LookPlan one = plan_looks(0.95, 1), many = plan_looks(0.95, 20);
  EXPECT_NEAR(one.confidence, 0.99, 1e-12);
  EXPECT_THAT(one.rounds, ElementsAre(8, 14, 21, 32, 48));
  EXPECT_NEAR(many.confidence, 0.9995, 1e-12);
  EXPECT_THAT(many.rounds, ElementsAre(12, 18, 27, 41, 62));
  EXPECT_EQ(plan_looks(0.95, 1, 2).rounds.size(), 2U);
}

TEST(LookPlan, spreads_its_looks_up_to_the_rounds_that_were_asked_for) {
  EXPECT_THAT(plan_looks(0.95, 1, 5, 500).rounds, ElementsAre(8, 22, 63, 178, 500));
  EXPECT_THAT(plan_looks(0.95, 1, 5, 20).rounds, ElementsAre(8, 14, 20));
  EXPECT_THAT(plan_looks(0.95, 20, 5, 10).rounds, ElementsAre(12));
  EXPECT_THAT(plan_looks(0.95, 1, 2, 100).rounds, ElementsAre(8, 100));
  EXPECT_NEAR(plan_looks(0.95, 1, 5, 500).confidence, plan_looks(0.95, 1).confidence, 1e-12);
}

TEST(Looks, IsSlowerOnlyIfFreshRoundsConfirmIt) {
  const Looks looks = run(plan_looks(0.95, 1), 0.01, 1, [](int) { return 1.2; });
  ASSERT_TRUE(looks.decided());
  EXPECT_EQ(looks.verdict().verdict, Verdict::slower);
  EXPECT_EQ(looks.rounds(), 14) << "eight to find it, six to confirm it";
  EXPECT_THAT(looks.verdict().reason, HasSubstr("6 fresh rounds confirm it"));
}

TEST(Looks, IsFasterOnlyIfFreshRoundsConfirmIt) {
  const Looks looks = run(plan_looks(0.95, 1), 0.01, 1, [](int) { return 0.8; });
  ASSERT_TRUE(looks.decided());
  EXPECT_EQ(looks.verdict().verdict, Verdict::faster);
  EXPECT_EQ(looks.rounds(), 14);
  EXPECT_THAT(looks.verdict().reason, HasSubstr("6 fresh rounds confirm it"));
  const Looks passing = run(plan_looks(0.95, 1), 0.01, 2, [](int round) { return round < 8 ? 0.8 : 1.0; });
  EXPECT_NE(passing.verdict().verdict, Verdict::faster);
  const Looks turned = run(plan_looks(0.95, 1, 1), 0.01, 2, [](int round) { return round < 8 ? 0.8 : 1.2; });
  EXPECT_EQ(turned.verdict().verdict, Verdict::inconclusive)
      << "fresh rounds that show the opposite confirm nothing";
  EXPECT_THAT(turned.verdict().reason, HasSubstr("faster by"));
}

TEST(Looks, ComparesDifferencesOfValuesThatMayBeZero) {
  const auto verdict = [](double a, double b) {
    Looks looks(plan_looks(0.95, 1), {});
    while (!looks.decided()) looks.add(a, b);
    return looks.verdict();
  };
  EXPECT_EQ(verdict(0, 0).verdict, Verdict::same);
  EXPECT_EQ(verdict(0, 500).verdict, Verdict::slower);
  EXPECT_EQ(verdict(-1, -2).verdict, Verdict::faster);
  EXPECT_FALSE(verdict(0, 500).ratio);
}

TEST(Looks, does_not_say_slower_of_a_disturbance_that_went_away) {
  const Looks looks = run(plan_looks(0.95, 1), 0.01, 2, [](int round) { return round < 8 ? 1.2 : 1.0; });
  EXPECT_NE(looks.verdict().verdict, Verdict::slower);
  const Looks late = run(plan_looks(0.95, 1, 1), 0.01, 2, [](int round) { return round < 8 ? 1.2 : 1.0; });
  ASSERT_TRUE(late.decided());
  EXPECT_EQ(late.verdict().verdict, Verdict::inconclusive);
  EXPECT_THAT(late.verdict().reason, HasSubstr("did not confirm it"));
}

TEST(Looks, ends_at_once_if_both_sides_are_equal_and_steady) {
  const Looks looks = run(plan_looks(0.95, 1), 0.005, 3, [](int) { return 1.0; });
  EXPECT_EQ(looks.verdict().verdict, Verdict::same);
  EXPECT_EQ(looks.taken(), 1);
  EXPECT_EQ(run(plan_looks(0.95, 1), 0.01, 4, [](int) { return 0.8; }).verdict().verdict, Verdict::faster);
}

TEST(Looks, goes_on_where_it_is_noisy_and_looks_no_oftener_than_planned) {
  const Looks looks = run(plan_looks(0.95, 1), 0.2, 5, [](int) { return 1.0; });
  EXPECT_TRUE(looks.decided());
  EXPECT_EQ(looks.taken(), 5);
  EXPECT_EQ(looks.verdict().verdict, Verdict::inconclusive);
  EXPECT_GT(looks.verdict().forks_needed.value_or(1000), 48);
}

TEST(Looks, without_confirmation_when_time_ends_it_is_inconclusive) {
  const Looks looks = run(plan_looks(0.95, 1), 0.01, 6, [](int) { return 1.2; }, 10);
  EXPECT_FALSE(looks.decided());
  EXPECT_EQ(looks.verdict().verdict, Verdict::inconclusive);
  EXPECT_THAT(looks.verdict().reason, HasSubstr("increase --max-time"));
  EXPECT_EQ(looks.rounds_to_next_look(), 4);
  EXPECT_THAT(run(
                  plan_looks(0.95, 1), 0.01, 6, [](int) { return 1.2; }, 3)
                  .verdict()
                  .reason,
              HasSubstr("with 3 rounds the confidence is at most 75 %"));
  EXPECT_THAT(run(
                  plan_looks(0.95, 1), 0.01, 6, [](int) { return 1.2; }, 1)
                  .verdict()
                  .reason,
              HasSubstr("with 1 round the confidence"));
}

// A slow change that both sides share is in no difference.
TEST(Looks, does_not_mind_a_machine_that_becomes_slower) {
  std::mt19937 engine(7);
  std::normal_distribution<double> normal(0, 0.005);
  Looks looks(plan_looks(0.95, 1), {});
  for (int round = 0; !looks.decided(); ++round) {
    const double drift = 1 + 0.05 * round;
    looks.add(drift * std::exp(normal(engine)), drift * std::exp(normal(engine)));
  }
  EXPECT_EQ(looks.verdict().verdict, Verdict::same);
}

}  // namespace
}  // namespace assay
