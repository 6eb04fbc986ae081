// Whether the plans save what MXNet's documents (2015) claim: 2x for training and 4x for prediction.
#include <gtest/gtest.h>

#include "harness/graph/memory_plan/summary.hpp"
#include "harness/graph/op.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

constexpr double claimed_for_training = 2, claimed_for_prediction = 4;

double saving(const ArenaSummary& arena) {
  return static_cast<double>(arena.naive) / static_cast<double>(arena.co_share);
}

// Study M names AlexNet-, VGG- and Inception-like networks; ResNet-56 is ours.
TEST(MemoryPlans, save_what_was_claimed_for_photographs_and_resnet56) {
  for (const char* name : {"alexnet", "overfeat", "vgg_a", "googlenet", "resnet56", "resnet50"}) {
    const Workload& workload = find_workload(name);
    const Program program = workload.build(workload.batch);
    EXPECT_GE(saving(plan_sizes(training_step(program, {}))), claimed_for_training) << name;
    EXPECT_GE(saving(plan_sizes(inference_step(program, {}))), claimed_for_prediction) << name;
  }
}

// If a plan does not reach the claim, no placement can: the plan is within a twentieth of the bytes that are alive
// at the same time.
TEST(MemoryPlans, are_at_their_bound_where_they_save_less_than_was_claimed) {
  for (const Workload& workload : all_workloads()) {
    const Program program = workload.build(workload.batch);
    for (const bool train : {true, false}) {
      const ArenaSummary arena = plan_sizes(train ? training_step(program, {}) : inference_step(program, {}));
      if (saving(arena) >= (train ? claimed_for_training : claimed_for_prediction)) continue;
      EXPECT_LE(static_cast<double>(arena.co_share), 1.05 * static_cast<double>(arena.lower_bound))
          << workload.name;
    }
  }
}

TEST(Peak, is_the_lower_bound_of_the_plan_and_the_sum_of_what_is_alive) {
  for (const char* name : {"lenet5", "resnet56", "cifar10-cnn"}) {
    const Program program = find_workload(name).build(8);
    for (const Graph& graph : {training_step(program, {}), inference_step(program, {})}) {
      const Peak peak = peak_of(graph, plain_bytes(graph));
      EXPECT_EQ(peak.bytes, plan_sizes(graph).lower_bound) << name;
      std::int64_t sum = 0;
      for (const LiveValue& live : peak.live) sum += live.bytes;
      EXPECT_EQ(sum, peak.bytes) << name;
    }
  }
}

}  // namespace
}  // namespace assay
