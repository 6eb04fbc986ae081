#include "harness/conductor/data/initial_values.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

#include "harness/core/error.hpp"
#include "harness/graph/program.hpp"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Le;

Graph graph_of(const char* fill, DType dtype = DType::f32) {
  Graph graph("op/test");
  graph.add_value("x", {dtype, {100, 20}}, Role::input, fill);
  return graph;
}

TEST(Operands, are_the_same_for_the_same_seed_and_others_for_another) {
  const Graph graph = graph_of("signal");
  EXPECT_EQ(draw_operands(graph, 2, 5, "a"), draw_operands(graph, 2, 5, "a"));
  EXPECT_NE(draw_operands(graph, 2, 5, "a"), draw_operands(graph, 2, 6, "a"));
  EXPECT_NE(draw_operands(graph, 2, 5, "a"), draw_operands(graph, 2, 5, "b"));
}

TEST(Operands, DifferBetweenSamples) {
  const std::vector<float> both = draw_operands(graph_of("signal"), 2, 1, "a");
  EXPECT_NE(std::vector<float>(both.begin(), both.begin() + 2000),
            std::vector<float>(both.begin() + 2000, both.end()));
}

TEST(Operands, signals_have_mean_zero_and_deviation_one) {
  const std::vector<float> values = draw_operands(graph_of("signal"), 10, 1, "a");
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += value;
    squares += value * value;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 0.03);
  EXPECT_NEAR(squares / n, 1, 0.03);
}

TEST(Operands, are_integer_for_classes_and_positive_for_scales) {
  const std::vector<float> classes = draw_operands(graph_of("below:7", DType::i32), 1, 1, "a");
  EXPECT_THAT(classes, Each(AllOf(Ge(0.0F), Le(6.0F))));
  for (const float value : classes) EXPECT_EQ(value, std::floor(value));
  EXPECT_THAT(classes, ::testing::Contains(6.0F));
  EXPECT_THAT(draw_operands(graph_of("positive"), 1, 1, "a"), Each(AllOf(Ge(0.5F), Le(1.5F))));
}

TEST(Operands, wide_ones_reach_beyond_the_bounds_of_clamped_functions_and_avoid_their_kinks) {
  const std::vector<float> values = draw_operands(graph_of("wide"), 10, 1, "a");
  EXPECT_GT(*std::ranges::max_element(values), 7);
  EXPECT_LT(*std::ranges::min_element(values), -7);
  for (const float value : values) EXPECT_GE(std::abs(value - std::round(value)), 0.0009F);
}

TEST(Operands, fractions_are_tagged_as_real_numbers) {
  const std::vector<float> pairs = draw_operands(graph_of("fraction"), 1, 1, "a");
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    EXPECT_EQ(pairs[i], 1);
    EXPECT_NE(pairs[i + 1], std::floor(pairs[i + 1]));
  }
}

TEST(Operands, PaddingHidesTheEndsOfTexts) {
  constexpr int steps = 20, shortest = 5;
  const std::vector<float> masks = draw_operands(graph_of("padding"), 1, 1, "a");
  std::set<std::ptrdiff_t> lengths;
  for (std::size_t text = 0; text < masks.size(); text += steps) {
    const std::vector<float> mask(masks.begin() + static_cast<std::ptrdiff_t>(text),
                                  masks.begin() + static_cast<std::ptrdiff_t>(text) + steps);
    const std::ptrdiff_t length = std::ranges::count(mask, 0.0F);
    std::vector<float> expected(static_cast<std::size_t>(length), 0.0F);
    expected.resize(steps, -std::numeric_limits<float>::infinity());
    EXPECT_EQ(mask, expected);
    lengths.insert(length);
  }
  EXPECT_EQ(*lengths.begin(), shortest);
  EXPECT_EQ(*lengths.rbegin(), steps);
}

TEST(Operands, RefusesAnUnknownKind) {
  EXPECT_THROW(draw_operands(graph_of("sparkling"), 1, 1, "a"), DataError);
  EXPECT_THROW(draw_operands(graph_of("below:x"), 1, 1, "a"), DataError);
  EXPECT_THROW(draw_operands(graph_of("below:0"), 1, 1, "a"), DataError);
}

}  // namespace
}  // namespace assay
