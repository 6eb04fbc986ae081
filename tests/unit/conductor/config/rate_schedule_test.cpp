#include "harness/conductor/config/rate_schedule.hpp"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/options.hpp"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t steps_per_epoch = 390;

double rate(const char* text, double base, std::int64_t steps_done, std::int64_t an_epoch = steps_per_epoch) {
  return RateSchedule::parse(text).rate(base, steps_done, an_epoch);
}

std::string schedule_error(const char* text) {
  try {
    RateSchedule::parse(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(RateSchedule, constant_is_the_base_rate_itself) {
  for (const std::int64_t s : {0, 1, 1'000'000}) EXPECT_EQ(rate("constant", 0.1, s), 0.1);
}

// keras/examples/cifar10_resnet.py, lr_schedule(epoch) with the epoch counted from 0.
TEST(RateSchedule, step_is_that_of_the_keras_example_in_every_epoch) {
  const auto keras = [](int epoch) {
    double lr = 1e-3;
    if (epoch > 180)
      lr *= 0.5e-3;
    else if (epoch > 160)
      lr *= 1e-3;
    else if (epoch > 120)
      lr *= 1e-2;
    else if (epoch > 80)
      lr *= 1e-1;
    return lr;
  };
  for (int epoch = 0; epoch < 200; ++epoch) {
    for (const std::int64_t step : {epoch * steps_per_epoch, (epoch + 1) * steps_per_epoch - 1}) {
      EXPECT_DOUBLE_EQ(rate("step:81x0.1:121x0.01:161x0.001:181x0.0005", 1e-3, step), keras(epoch)) << epoch;
    }
  }
}

// The loop that study B's script runs: after every tenth epoch the rate is multiplied.
TEST(RateSchedule, every_multiplies_again_and_again) {
  double expected = 0.01;
  for (int epoch = 0; epoch < 40; ++epoch) {
    EXPECT_NEAR(rate("every:10x0.9", 0.01, epoch * steps_per_epoch), expected, 1e-15) << epoch;
    EXPECT_EQ(rate("every:10x0.9", 0.01, epoch * steps_per_epoch),
              rate("every:10x0.9", 0.01, (epoch + 1) * steps_per_epoch - 1));
    if ((epoch + 1) % 10 == 0) expected *= 0.9;
  }
}

// numpy: 0.05 * (1 + np.cos(np.pi * s / 1000)) for s in (0, 250, 333, 500, 999).
TEST(RateSchedule, cosine_falls_from_the_base_rate_to_zero) {
  const auto cosine = [](std::int64_t s) { return rate("cosine:10", 0.1, s, 100); };
  EXPECT_EQ(cosine(0), 0.1);
  EXPECT_NEAR(cosine(250), 0.08535533905932738, 1e-15);
  EXPECT_NEAR(cosine(333), 0.0750453312680355, 1e-15);
  EXPECT_NEAR(cosine(500), 0.05, 1e-15);
  EXPECT_NEAR(cosine(999), 2.467399070893439e-07, 1e-15);
  EXPECT_NEAR(cosine(1000), 0, 1e-15);
  EXPECT_NEAR(cosine(5000), 0, 1e-15) << "it does not rise again";
}

TEST(RateSchedule, cosine_without_epochs_covers_the_run) {
  const RateSchedule bare = RateSchedule::parse("cosine");
  EXPECT_TRUE(bare.lacks_epochs());
  EXPECT_EQ(bare.over(10).text(), "cosine:10");
  EXPECT_EQ(RateSchedule::parse("cosine:7").over(10).text(), "cosine:7");
  EXPECT_EQ(RateSchedule::parse("constant").over(10).text(), "constant");
}

// keras/optimizers.py (2.2.4): lr = self.lr * (1. / (1. + self.decay * iterations)), iterations 0 at first.
TEST(RateSchedule, decay_is_that_of_keras) {
  EXPECT_EQ(rate("decay:1e-6", 1e-4, 0), 1e-4);
  EXPECT_NEAR(rate("decay:1e-6", 1e-4, 1), 9.999990000010002e-05, 1e-18);
  EXPECT_NEAR(rate("decay:1e-6", 1e-4, 1'000'000), 5e-05, 1e-16);
  EXPECT_NEAR(rate("decay:0.1", 1.0, 25), 0.2857142857142857, 1e-16);
}

TEST(RateSchedule, warm_up_is_linear_and_multiplies_the_next_schedule) {
  // 5 epochs of 10 steps: 1/50 of the rate with the first step, all of it with the 50th.
  EXPECT_DOUBLE_EQ(rate("warmup:5+constant", 1.0, 0, 10), 0.02);
  EXPECT_DOUBLE_EQ(rate("warmup:5+constant", 1.0, 24, 10), 0.5);
  EXPECT_DOUBLE_EQ(rate("warmup:5+constant", 1.0, 49, 10), 1.0);
  EXPECT_DOUBLE_EQ(rate("warmup:5+constant", 1.0, 50, 10), 1.0);
  for (std::int64_t s = 0; s < 300; s += 7) {
    const double warm = std::min((static_cast<double>(s) + 1) / 50, 1.0);
    for (const std::string follows : {"step:10x0.1:20x0.01", "cosine:30", "every:10x0.9", "decay:0.01"}) {
      EXPECT_DOUBLE_EQ(rate(("warmup:5+" + follows).c_str(), 0.4, s, 10),
                       warm * rate(follows.c_str(), 0.4, s, 10))
          << follows << " " << s;
    }
  }
  EXPECT_DOUBLE_EQ(rate("warmup:0.5+constant", 1.0, 0, 10), 0.2) << "half an epoch";
  EXPECT_DOUBLE_EQ(rate("warmup:0.01+constant", 1.0, 0, 10), 1.0) << "shorter than a step";
}

TEST(RateSchedule, has_one_text) {
  for (const char* text : {"constant", "step:81x0.1:121x0.01", "every:10x0.9", "cosine", "cosine:200",
                           "decay:1e-06", "warmup:5+cosine:200", "warmup:2.5+step:30x0.1"}) {
    EXPECT_EQ(RateSchedule::parse(text).text(), text);
  }
  EXPECT_EQ(RateSchedule::parse("step:081x1e-1").text(), "step:81x0.1");
  EXPECT_EQ(RateSchedule::parse("decay:0.000001").text(), "decay:1e-06");
}

TEST(RateSchedule, refuses_an_unknown_schedule_with_the_known_ones) {
  EXPECT_THAT(schedule_error("cosin"),
              AllOf(HasSubstr("unknown schedule 'cosin'"), HasSubstr("every:EPOCHSxFACTOR")));
  EXPECT_THAT(schedule_error(""), HasSubstr("unknown schedule"));
  EXPECT_THAT(schedule_error("constant:1"), HasSubstr("does not take 1 value;"));
  EXPECT_THAT(schedule_error("step"), HasSubstr("does not take 0 values"));
  EXPECT_THAT(schedule_error("step:81"), HasSubstr("'81' is not of the form EPOCHxFACTOR"));
  EXPECT_THAT(schedule_error("step:81x"), HasSubstr("'' is not a number"));
  EXPECT_THAT(schedule_error("step:0x0.1"), HasSubstr("'0' is not a number from 1"));
  EXPECT_THAT(schedule_error("step:81x-1"), HasSubstr("'-1' is not a number from 0"));
  EXPECT_THAT(schedule_error("step:81xnan"), HasSubstr("'nan' is not a number"));
  EXPECT_THAT(schedule_error("step:81x0.1:81x0.01"), HasSubstr("must increase"));
  EXPECT_THAT(schedule_error("every:10x0.9:20x0.8"), HasSubstr("2 values"));
  EXPECT_THAT(schedule_error("cosine:1.5"), HasSubstr("'1.5'"));
  EXPECT_THAT(schedule_error("cosine:99999999999999999999"), HasSubstr("is not a number"));
  EXPECT_THAT(schedule_error("decay:"), HasSubstr("''"));
  EXPECT_THAT(schedule_error("warmup:5"), HasSubstr("after the warm-up is missing"));
  EXPECT_THAT(schedule_error("warmup:0+constant"), HasSubstr("'0'"));
  EXPECT_THAT(schedule_error("warmup:5+warmup:5+constant"), HasSubstr("unknown schedule 'warmup'"));
}

TEST(TrainingSchedule, has_a_row_a_step_with_its_rate_and_count) {
  const auto rows = training_schedule(RateSchedule::parse("every:1x0.5"), 0.8, 7, 3);
  EXPECT_THAT(rows, ::testing::ElementsAre(0.8, 1, 0.8, 2, 0.8, 3, 0.4, 4, 0.4, 5, 0.4, 6, 0.2, 7));
}

}  // namespace
}  // namespace assay
