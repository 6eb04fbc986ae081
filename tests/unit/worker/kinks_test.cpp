#include "harness/worker/kinks.hpp"

#include <gtest/gtest.h>

#include "harness/graph/builder.hpp"

namespace assay {
namespace {

// relu - max pool 2x2 - linear over one plane of 4 x 4.
Program kinked() {
  Graph graph("kinked");
  GraphBuilder builder(graph, true);
  const ValueId x = builder.input("inputs", {2, 1, 4, 4});
  const ValueId labels = builder.label("labels", {2});
  const ValueId pooled = builder.max_pool(builder.relu(x, "relu1"), {.kernel = 2, .stride = 2}, "pool1");
  const ValueId logits = builder.linear("fc1", builder.flatten(pooled), 3);
  graph.add_output("logits", logits);
  graph.add_output("loss", builder.softmax_cross_entropy(logits, labels, "loss"));
  return {graph, graph, OptimizerSpec{}};
}

HostTensor values(const std::string& name, const std::vector<double>& elements) {
  HostTensor tensor = HostTensor::zeros(name, {DType::f64, {2, 1, 4, 4}});
  std::ranges::copy(elements, tensor.as<double>().begin());
  return tensor;
}

std::vector<double> plane() {
  std::vector<double> y(32);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<double>(i);  // the first is 0
  return y;
}

std::vector<HostTensor> pass(const std::vector<double>& y) {
  return {values("kink/relu1", y), values("kink/pool1", y), values("other", y)};
}

std::vector<double> count(const Kinks& kinks, const std::string& op) {
  for (const HostTensor& tensor : kinks.counts())
    if (tensor.name == "ties/" + op) return {tensor.as<double>().begin(), tensor.as<double>().end()};
  return {};
}

TEST(Kinks, adds_and_removes_an_output_per_relu_and_max_pool) {
  Kinks kinks(kinked());
  EXPECT_NE(kinks.watched().training->output("kink/relu1"), none);
  EXPECT_NE(kinks.watched().training->output("kink/pool1"), none);
  std::vector<HostTensor> answers = pass(plane());
  EXPECT_EQ(kinks.elements(), 0);
  kinks.take(answers);
  EXPECT_EQ(kinks.elements(), 32 + 8);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].name, "other");
}

TEST(Kinks, counts_nothing_where_values_move_without_crossing) {
  Kinks kinks(kinked());
  std::vector<HostTensor> first = pass(plane());
  kinks.take(first);
  std::vector<double> moved = plane();
  for (double& y : moved) y *= 1.25;
  std::vector<HostTensor> second = pass(moved);
  kinks.take(second);
  EXPECT_EQ(count(kinks, "relu"), (std::vector<double>{0, 32}));
  EXPECT_EQ(count(kinks, "max_pool"), (std::vector<double>{0, 8}));
}

TEST(Kinks, counts_an_element_once_however_many_passes_it_tips_in) {
  Kinks kinks(kinked());
  std::vector<HostTensor> first = pass(plane());
  kinks.take(first);
  std::vector<double> moved = plane();
  moved[0] = 1e-9;                // a ReLU that was shut
  std::swap(moved[4], moved[5]);  // the maximum of the first window is now its third element
  moved[20] = 21.5;               // another window, in the second sample
  for (int run = 0; run < 2; ++run) {
    std::vector<HostTensor> again = pass(moved);
    kinks.take(again);
  }
  EXPECT_EQ(count(kinks, "relu"), (std::vector<double>{1, 32}));
  EXPECT_EQ(count(kinks, "max_pool"), (std::vector<double>{2, 8}));
}

TEST(Kinks, compares_samples_in_the_order_of_the_first_pass) {
  Kinks kinks(kinked());
  std::vector<double> y = plane();
  std::fill(y.begin() + 16, y.end(), 0.0);
  std::vector<HostTensor> first = pass(y);
  kinks.take(first);
  std::vector<double> turned(y.begin() + 16, y.end());
  turned.insert(turned.end(), y.begin(), y.begin() + 16);
  std::vector<HostTensor> second = pass(turned);
  kinks.take(second, [](const std::vector<double>& rows) {
    std::vector<double> ordered(rows.begin() + 16, rows.end());
    ordered.insert(ordered.end(), rows.begin(), rows.begin() + 16);
    return ordered;
  });
  EXPECT_EQ(count(kinks, "relu"), (std::vector<double>{0, 32}));
}

// x (2, 3) - normalise each row with a limit of 2 - maximum of each row.
Program chosen() {
  Graph graph("chosen");
  GraphBuilder builder(graph, true);
  const ValueId x = builder.input("inputs", {2, 3});
  const ValueId y =
      builder.apply("normalise", {x}, {{"axes", std::vector<std::int64_t>{1}}, {"epsilon", 0.5}}, "norm1")[0];
  const ValueId max = builder.apply(
      "reduce", {y}, {{"kind", std::string("max")}, {"axes", std::vector<std::int64_t>{1}}}, "max1")[0];
  builder.apply("reduce", {y}, {{"kind", std::string("sum")}, {"axes", std::vector<std::int64_t>{1}}},
                "sum1");
  graph.add_output("logits", max);
  return {graph, graph, OptimizerSpec{}};
}

TEST(Kinks, nudge_what_a_max_pool_reads_as_far_as_the_errors_of_its_channel) {
  Kinks kinks(kinked(), true);
  const Graph& graph = *kinks.watched().training;
  ASSERT_NE(graph.find("nudge/pool1"), none);
  EXPECT_EQ(graph.find("nudge/relu1"), none);
  const auto reach = [&] {
    const std::vector<HostTensor> tensors = kinks.reach();
    EXPECT_EQ(tensors.size(), 1U);
    EXPECT_EQ(tensors.front().name, "nudge/pool1");
    const std::span<const float> values = tensors.front().as<float>();
    EXPECT_EQ(values.size(), 32U);
    EXPECT_EQ(std::ranges::count(values, values[0]), 32);  // one channel
    return values[0];
  };
  std::vector<HostTensor> exact = pass(plane());
  kinks.take(exact);
  EXPECT_EQ(reach(), 0);
  for (const double error : {-0.5, 0.25}) {
    std::vector<double> off = plane();
    off[20] += error;
    std::vector<HostTensor> tensors = pass(off);
    tensors.push_back(HostTensor::zeros("first/moment/nudge/pool1", {DType::f32, {2}}));
    kinks.take(tensors);
    EXPECT_EQ(tensors.size(), 1U);  // "other"
  }
  EXPECT_EQ(reach(), 0.5F);
}

TEST(Kinks, EnterByTheContractOfTheOp) {
  Kinks kinks(chosen());
  const auto pass = [&](const std::vector<double>& x) {
    std::vector<HostTensor> answers;
    for (const char* name : {"kink/norm1", "kink/max1"}) {
      answers.push_back(HostTensor::zeros(name, {DType::f64, {2, 3}}));
      std::ranges::copy(x, answers.back().as<double>().begin());
    }
    kinks.take(answers);
    EXPECT_TRUE(answers.empty());
  };
  pass({0.3, 0.1, 0.2, 3, 4, 5});
  EXPECT_EQ(kinks.elements(), 4);
  pass({0.3, 0.1, 0.2, 3, 4.5, 5});
  EXPECT_FALSE(kinks.any_tipped());
  pass({0.3, 0.1, 0.4, 3, 4, 5});  // a norm of 0.51, and another maximum
  EXPECT_EQ(count(kinks, "normalise"), (std::vector<double>{1, 2}));
  EXPECT_EQ(count(kinks, "reduce"), (std::vector<double>{1, 2}));
}

// PP-OCR's classifier, whose hard-swish has 1.8 million elements, had a tie of its max-pool that no perturbed run crossed.
TEST(NearTies, are_looked_for_in_the_first_step_of_a_large_network_that_chooses) {
  for (const bool chooses : {false, true}) {
    for (const bool tipped : {false, true}) {
      const NearTies few = near_ties(1'000'000, tipped, chooses),
                     many = near_ties(20'000'000, tipped, chooses);
      EXPECT_TRUE(few.in_all_steps && few.in_the_first);
      EXPECT_EQ(many.in_all_steps, tipped);
      EXPECT_EQ(many.in_the_first, tipped || chooses);
    }
  }
}

}  // namespace
}  // namespace assay
