#include "harness/conductor/data/initial_values.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/data/epoch_plan.hpp"
#include "harness/core/error.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

TEST(InitialValues, know_the_fans_of_linear_and_convolution_weights) {
  EXPECT_EQ(fans({120, 256}).in, 256);
  EXPECT_EQ(fans({120, 256}).out, 120);
  EXPECT_EQ(fans({16, 6, 3, 5}).in, 6 * 15);
  EXPECT_EQ(fans({16, 6, 3, 5}).out, 16 * 15);
  EXPECT_EQ(fans({7}).in, 7);
}

TEST(InitialValues, depend_only_on_the_seed_and_the_name) {
  const HostTensor a = initial_value("w", {30, 20}, "glorot_uniform", 1);
  EXPECT_EQ(a.bytes, initial_value("w", {30, 20}, "glorot_uniform", 1).bytes);
  EXPECT_NE(a.bytes, initial_value("w", {30, 20}, "glorot_uniform", 2).bytes);
  EXPECT_NE(a.bytes, initial_value("v", {30, 20}, "glorot_uniform", 1).bytes);
  EXPECT_EQ(a.name, "w");
}

// Bits that must not change from one version to the next: runs of different years are compared. Computed
// apart from this program.
TEST(InitialValues, are_these_bits) {
  const HostTensor tensor = initial_value("fc1.weight", {2, 3}, "glorot_uniform", 1);
  const std::span<const float> values = tensor.as<float>();
  EXPECT_THAT(std::vector<float>(values.begin(), values.end()),
              testing::ElementsAre(-0x1.0cc7320000000p+0f, -0x1.48948c0000000p-3f, -0x1.7b5f860000000p-2f,
                                   -0x1.71ba680000000p-1f, 0x1.58861a0000000p-1f, -0x1.3e1d5c0000000p-1f));
}

double mean_square(const HostTensor& tensor) {
  double sum = 0;
  for (const float value : tensor.as<float>()) sum += static_cast<double>(value) * value;
  return sum / static_cast<double>(tensor.type.elements());
}

TEST(InitialValues, have_the_bounds_and_the_variance_of_their_distribution) {
  const Shape shape = {200, 300};
  const HostTensor glorot = initial_value("a", shape, "glorot_uniform", 1);
  const double bound = std::sqrt(6.0 / 500);
  for (const float value : glorot.as<float>()) ASSERT_LE(std::abs(value), bound * (1 + 1e-7));
  EXPECT_NEAR(mean_square(glorot), bound * bound / 3, 0.02 * bound * bound / 3);
  EXPECT_NEAR(mean_square(initial_value("a", shape, "he_normal", 1)), 2.0 / 300, 0.02 * 2 / 300);
  EXPECT_NEAR(mean_square(initial_value("a", shape, "uniform_fan_in", 1)), 1.0 / 900, 0.02 / 900);
  EXPECT_EQ(mean_square(initial_value("a", shape, "zeros", 1)), 0);
  EXPECT_EQ(mean_square(initial_value("a", shape, "ones", 1)), 1);
  EXPECT_NEAR(mean_square(initial_value("a", shape, "normal:0.02", 1)), 4e-4, 0.02 * 4e-4);
  EXPECT_NEAR(mean_square(initial_value("a", shape, "uniform:0.07", 1)), 0.07 * 0.07 / 3,
              0.02 * 0.07 * 0.07 / 3);
  const HostTensor cut = initial_value("a", shape, "truncated_normal:0.1", 1);
  for (const float value : cut.as<float>()) ASSERT_LE(std::abs(value), 0.2 * (1 + 1e-7));
  EXPECT_NEAR(mean_square(cut), std::pow(0.1 * 0.87962566, 2), 0.02 * std::pow(0.1 * 0.87962566, 2));
  for (const char* unknown : {"magic", "uniform:", "truncated_normal:0", "normal:", "normal:0", "normal:-1",
                              "normal:1x", "normal:nan"})
    EXPECT_THROW(initial_value("a", shape, unknown, 1), DataError) << unknown;
}

// The greatest magnitude of each parameter.
std::map<std::string, double> greatest(const Graph& graph, InitialScheme scheme) {
  std::map<std::string, double> found;
  for (const HostTensor& tensor : initial_values(graph, 1, scheme))
    for (const float value : tensor.as<float>())
      found[tensor.name] = std::max<double>(found[tensor.name], std::abs(value));
  return found;
}

TEST(InitialValues, FollowASchemeByTheLayerThatReadsThem) {
  const Graph graph = find_workload("lenet5").build(2).training.value();
  const auto near = [](double expected) { return testing::DoubleNear(expected, 0.05 * expected); };
  auto keras = greatest(graph, InitialScheme::keras);
  EXPECT_THAT(keras["fc1.weight"], near(std::sqrt(6.0 / (400 + 120))));
  EXPECT_EQ(keras["fc1.bias"], 0);
  auto gluon = greatest(graph, InitialScheme::gluon);
  EXPECT_THAT(gluon["fc1.weight"], near(0.07));
  EXPECT_THAT(gluon["conv2.weight"], near(0.07));
  EXPECT_EQ(gluon["conv1.bias"], 0);
  auto torch = greatest(graph, InitialScheme::torch);
  EXPECT_THAT(torch["conv2.weight"], near(1 / std::sqrt(6.0 * 9)));
  EXPECT_THAT(torch["fc1.weight"], near(1 / std::sqrt(400.0)));
  EXPECT_THAT(torch["fc1.bias"], near(1 / std::sqrt(400.0)));
  auto normal = greatest(graph, InitialScheme::glorot_normal);
  EXPECT_THAT(normal["fc1.weight"], near(2 * std::sqrt(2.0 / (400 + 120)) / 0.87962566));
  // 120 draws need not come near the cut.
  const std::string bias = scheme_initializers(
      graph, InitialScheme::glorot_normal)[static_cast<std::size_t>(graph.find("fc1.bias"))];
  ASSERT_TRUE(bias.starts_with("truncated_normal:")) << bias;
  EXPECT_NEAR(std::stod(bias.substr(17)), std::sqrt(2.0 / (120 + 120)) / 0.87962566, 1e-8);
}

TEST(InitialValues, KeepNormsUnderAScheme) {
  const Graph graph = find_workload("resnet56").build(2).training.value();
  int scales = 0;
  for (const HostTensor& tensor : initial_values(graph, 1, InitialScheme::torch)) {
    const bool scale = tensor.name.ends_with(".norm.weight");
    if (!scale && !tensor.name.ends_with(".norm.bias")) continue;
    EXPECT_EQ(tensor.as<float>()[0], scale ? 1 : 0) << tensor.name;
    scales += scale ? 1 : 0;
  }
  EXPECT_GT(scales, 50);
}

TEST(InitialValues, RefuseASchemeForAParameterOfAnotherLayer) {
  const Graph graph = find_workload("lstm").build(2).training.value();
  EXPECT_THAT([&] { scheme_initializers(graph, InitialScheme::keras); },
              testing::ThrowsMessage<DataError>(testing::HasSubstr("of the op lstm")));
}

TEST(EpochPlan, is_a_permutation_that_the_epoch_and_the_seed_determine) {
  const std::vector<PlanRow> plan = epoch_plan(1000, 1, 5);
  std::set<std::int32_t> samples;
  for (const PlanRow& row : plan) {
    samples.insert(row.sample);
    EXPECT_EQ((PlanRow{row.sample, 0, 0, 0}), row);
  }
  EXPECT_EQ(samples.size(), 1000u);
  EXPECT_EQ(*samples.begin(), 0);
  EXPECT_EQ(*samples.rbegin(), 999);
  EXPECT_EQ(plan, epoch_plan(1000, 1, 5));
  EXPECT_NE(plan, epoch_plan(1000, 2, 5));
  EXPECT_NE(plan, epoch_plan(1000, 1, 6));
  EXPECT_THROW(epoch_plan(0, 1, 1), std::invalid_argument);
}

}  // namespace
}  // namespace assay
