#include "harness/conductor/check/update_judge.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/core/error.hpp"

namespace assay {
namespace {

OptimizerSpec spec(const char* kind) {
  OptimizerSpec result;
  result.kind = kind;
  return result;
}

TEST(OptimizerStep, keeps_the_learning_rate_out_of_the_velocity) {
  const OptimizerElement after = optimizer_step(spec("sgd"), {2, {0.5, 0}}, 0.25, 0.1, 4);
  EXPECT_DOUBLE_EQ(after.moments[0], 0.9 * 0.5 + 0.25);
  EXPECT_DOUBLE_EQ(after.parameter, 2 - 0.1 * (0.9 * 0.5 + 0.25));
}

TEST(OptimizerStep, has_no_moment_for_plain_descent) {
  OptimizerSpec plain = spec("sgd");
  plain.momentum = 0;
  const OptimizerElement after = optimizer_step(plain, {2, {}}, 0.25, 0.1, 1);
  EXPECT_DOUBLE_EQ(after.parameter, 2 - 0.025);
  EXPECT_EQ(after.moments[0], 0);
}

TEST(OptimizerStep, adds_the_epsilon_of_rmsprop_after_the_root) {
  OptimizerSpec rmsprop = spec("rmsprop");
  rmsprop.epsilon = 0.5;
  const OptimizerElement after = optimizer_step(rmsprop, {1, {4, 0}}, 2, 0.1, 1);
  EXPECT_DOUBLE_EQ(after.moments[0], 0.9 * 4 + (1 - 0.9) * 4);
  EXPECT_DOUBLE_EQ(after.parameter, 1 - 0.1 * 2 / (2 + 0.5));
}

TEST(OptimizerStep, is_that_of_adam_for_a_row_that_lazy_adam_touches) {
  const OptimizerElement before{1, {0.5, 0.25}};
  const OptimizerElement lazy = optimizer_step(spec("lazy_adam"), before, 2, 0.1, 7);
  const OptimizerElement adam = optimizer_step(spec("adam"), before, 2, 0.1, 7);
  EXPECT_EQ(lazy.parameter, adam.parameter);
  EXPECT_EQ(lazy.moments, adam.moments);
}

TEST(OptimizerStep, corrects_the_bias_of_both_moments_of_adam) {
  OptimizerSpec adam = spec("adam");
  adam.epsilon = 0;
  OptimizerElement element{1, {}};
  for (int step = 1; step <= 5; ++step) element = optimizer_step(adam, element, 0.01, 0.001, step);
  EXPECT_NEAR(element.parameter, 1 - 0.005, 1e-12)
      << "a constant gradient moves by the learning rate, whatever its size";
}

TEST(OptimizerStep, adds_the_epsilon_of_adam_after_the_root) {
  OptimizerSpec adam = spec("adam");
  adam.epsilon = 1;
  EXPECT_NEAR(optimizer_step(adam, {0, {}}, 1, 0.5, 1).parameter, -0.25, 1e-12);
}

TEST(OptimizerStep, couples_weight_decay_into_the_gradient) {
  OptimizerSpec decayed = spec("sgd");
  decayed.weight_decay = 0.1;
  EXPECT_DOUBLE_EQ(optimizer_step(decayed, {2, {}}, 0.25, 1, 1).moments[0], 0.45);
  OptimizerSpec adam = spec("adam");
  adam.weight_decay = 0.1;
  EXPECT_NEAR(optimizer_step(adam, {2, {}}, 0.25, 1, 1).moments[0], 0.1 * 0.45, 1e-15);
}

TEST(OptimizerStep, refuses_an_unknown_kind) {
  EXPECT_THROW(optimizer_step(spec("lion"), {}, 0, 0, 1), GraphError);
}

}  // namespace
}  // namespace assay
