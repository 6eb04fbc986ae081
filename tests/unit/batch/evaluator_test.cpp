#include "harness/batch/evaluator.hpp"

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "harness/batch/latencies.hpp"

namespace assay {
namespace {

TEST(Evaluator, gives_a_tie_to_the_lowest_index) {
  Evaluator evaluator(3);
  const std::vector<float> logits = {1, 2, 2, 1, 2, 2, 0, 0, 0};
  evaluator.add(logits.data(), std::vector<std::int32_t>{1, 2, 0});
  EXPECT_EQ(evaluator.samples(), 3);
  EXPECT_DOUBLE_EQ(evaluator.accuracy(), 2.0 / 3);
}

TEST(Evaluator, takes_the_mean_cross_entropy_without_overflow) {
  Evaluator evaluator(2);
  const std::vector<float> logits = {1e30f, -1e30f, 1000, 1001, -1000, -1001};
  evaluator.add(logits.data(), std::vector<std::int32_t>{0, 0, 0});
  EXPECT_NEAR(evaluator.loss(), (0 + std::log1p(std::exp(1.0)) + std::log1p(std::exp(-1.0))) / 3, 1e-12);
}

TEST(Evaluator, leaves_out_padded_rows) {
  Evaluator evaluator(2);
  const std::vector<float> logits = {5, 0, std::nanf(""), 0};
  evaluator.add(logits.data(), std::vector<std::int32_t>{0, -1});
  EXPECT_EQ(evaluator.samples(), 1);
  EXPECT_EQ(evaluator.accuracy(), 1);
  EXPECT_TRUE(std::isfinite(evaluator.loss()));
}

TEST(Evaluator, counts_a_nan_as_wrong_and_shows_it_in_the_loss) {
  for (const std::size_t where : {0u, 1u, 2u}) {
    Evaluator evaluator(3);
    std::vector<float> logits = {9, 0, 0};
    logits[where] = std::numeric_limits<float>::quiet_NaN();
    evaluator.add(logits.data(), std::vector<std::int32_t>{0});
    EXPECT_EQ(evaluator.accuracy(), 0);
    EXPECT_TRUE(std::isnan(evaluator.loss()));
  }
}

TEST(Latencies, keeps_all_while_there_is_room_and_a_fair_sample_afterwards) {
  Latencies few(10);
  for (int i = 0; i < 7; ++i) few.add(i);
  EXPECT_EQ(few.kept(), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
  Latencies many(1000);
  for (int i = 0; i < 100'000; ++i) many.add(i);
  EXPECT_EQ(many.seen(), 100'000);
  const std::vector<std::int64_t> kept = many.kept();
  EXPECT_EQ(std::set(kept.begin(), kept.end()).size(), 1000u);
  double sum = 0;
  for (const std::int64_t value : kept) sum += static_cast<double>(value);
  EXPECT_NEAR(sum / 1000, 50'000, 5 * 100'000 / std::sqrt(12.0 * 1000));
}

TEST(Latencies, keeps_nothing_without_room) {
  Latencies none(0);
  none.add(1);
  EXPECT_TRUE(none.kept().empty());
}

}  // namespace
}  // namespace assay
