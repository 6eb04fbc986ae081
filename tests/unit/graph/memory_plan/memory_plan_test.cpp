#include "harness/graph/memory_plan/memory_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <span>

#include "harness/graph/passes/fuse.hpp"
#include "harness/graph/passes/training_step.hpp"
#include "tests/unit/graph/memory_plan/random_graph.hpp"
#include "tests/unit/graph/memory_plan/simulation.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

constexpr std::uint32_t random_graphs = 400;
const FusionRules every_rule{
    .activation = {"convolution", "linear"},
    .mask = {"linear_input_gradient", "average_pool_gradient", "convolution_input_gradient"},
    .grouped_updates = true};
constexpr std::array all_sharings{Sharing::naive, Sharing::in_place, Sharing::co_share_only,
                                  Sharing::co_share};

constexpr std::array usual_sharings{Sharing::naive, Sharing::in_place, Sharing::co_share};

void expect_right(const Graph& graph, const std::string& what,
                  std::span<const Sharing> sharings = usual_sharings) {
  const ByteSize bytes = plain_bytes(graph);
  const auto some = [](const Node& node, InPlace pair) {
    return (node.name.size() + static_cast<std::size_t>(pair.input)) % 2 == 0;
  };
  const auto scratch = [](NodeId id) { return std::int64_t{id % 3} * 100; };
  for (const auto& allows :
       {std::function<bool(const Node&, InPlace)>{}, std::function<bool(const Node&, InPlace)>{some}}) {
    std::int64_t before = INT64_MAX, naive = INT64_MAX;
    for (const Sharing sharing : sharings) {
      const PlanOptions options{sharing, allows, scratch};
      const MemoryPlan plan = plan_memory(graph, bytes, options);
      EXPECT_EQ(Simulation(graph, bytes, plan, options).run(), "") << what << " " << to_string(sharing);
      if (sharing == Sharing::naive) naive = plan.arena_bytes;
      // Without in_place it may need more or less than in_place.
      const std::int64_t most = sharing == Sharing::co_share_only ? naive : before;
      EXPECT_LE(plan.arena_bytes, most) << what << " " << to_string(sharing);
      EXPECT_LE(plan.lower_bound, plan.arena_bytes) << what << " " << to_string(sharing);
      if (sharing != Sharing::co_share_only) before = plan.arena_bytes;
    }
  }
}

TEST(MemoryPlan, every_node_of_a_random_graph_finds_its_operands) {
  for (std::uint32_t seed = 0; seed < random_graphs; ++seed) {
    expect_right(RandomGraph(seed).take(), "seed " + std::to_string(seed), all_sharings);
    if (HasFailure()) return;
  }
}

TEST(MemoryPlan, every_node_of_each_workload_finds_its_operands) {
  for (const Workload& workload : all_workloads()) {
    for (PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16, PrecisionKind::fp64}) {
      const Precision policy = precision_of(precision);
      const std::string name(to_string(precision));
      expect_right(training_step(workload.build(4), {.precision = policy}), workload.name + " " + name);
      expect_right(fuse(training_step(workload.build(4), {.precision = policy}), every_rule),
                   workload.name + " fused");
      expect_right(inference_step(workload.build(4), policy), workload.name + " inference " + name);
    }
  }
}

TEST(MemoryPlan, no_two_values_that_live_at_once_overlap_without_in_place_ops) {
  const auto never = [](const Node&, InPlace) { return false; };
  for (std::uint32_t seed = 0; seed < random_graphs; ++seed) {
    const Graph graph = RandomGraph(seed).take();
    const ByteSize bytes = plain_bytes(graph);
    const MemoryPlan plan = plan_memory(graph, bytes, {.sharing = Sharing::co_share, .allows = never});
    const std::vector<Lifetime> lives = liveness(graph);
    for (std::size_t a = 0; a < lives.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (plan.offset[a] < 0 || plan.offset[b] < 0 || !lives[a].overlaps(lives[b])) continue;
        const std::int64_t end_a = plan.offset[a] + bytes(static_cast<ValueId>(a));
        const std::int64_t end_b = plan.offset[b] + bytes(static_cast<ValueId>(b));
        ASSERT_TRUE(end_a <= plan.offset[b] || end_b <= plan.offset[a])
            << "seed " << seed << ": " << graph.values()[a].name << " and " << graph.values()[b].name;
      }
    }
  }
}

TEST(MemoryPlan, a_chain_of_in_place_ops_needs_one_buffer) {
  Graph graph("g");
  GraphBuilder b(graph);
  ValueId x = b.linear("fc", b.input("inputs", {16, 16}), 16);
  for (int i = 0; i < 5; ++i) x = b.relu(x);
  graph.add_output("y", x);
  const ByteSize bytes = plain_bytes(graph);
  EXPECT_EQ(plan_memory(graph, bytes, {.sharing = Sharing::naive}).arena_bytes, 6 * 1024);
  EXPECT_EQ(plan_memory(graph, bytes, {.sharing = Sharing::in_place}).arena_bytes, 1024);
}

TEST(MemoryPlan, an_operand_that_is_read_again_is_not_written_over) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x = b.linear("fc", b.input("inputs", {16, 16}), 16);
  graph.add_output("y", b.add(b.relu(x), x));
  const MemoryPlan plan = plan_memory(graph, plain_bytes(graph), {.sharing = Sharing::in_place});
  EXPECT_EQ(plan.arena_bytes, 2 * 1024);
}

TEST(MemoryPlan, values_that_never_meet_share_their_bytes) {
  Graph graph("g");
  GraphBuilder b(graph);
  ValueId x = b.input("inputs", {16, 16});
  for (int i = 0; i < 6; ++i) x = b.linear("fc" + std::to_string(i), x, 16);
  graph.add_output("y", x);
  EXPECT_EQ(plan_memory(graph, plain_bytes(graph), {.sharing = Sharing::in_place}).arena_bytes, 6 * 1024);
  EXPECT_EQ(plan_memory(graph, plain_bytes(graph), {.sharing = Sharing::co_share}).arena_bytes, 2 * 1024);
}

TEST(MemoryPlan, co_share_only_never_writes_a_result_over_its_operand) {
  Graph graph("g");
  GraphBuilder b(graph);
  ValueId x = b.linear("fc", b.input("inputs", {16, 16}), 16);
  for (int i = 0; i < 5; ++i) x = b.relu(x);
  graph.add_output("y", x);
  // One buffer in place; here an operand and its result alternate between two.
  EXPECT_EQ(plan_memory(graph, plain_bytes(graph), {.sharing = Sharing::co_share_only}).arena_bytes,
            2 * 1024);
}

TEST(MemoryPlan, an_optimizer_writes_parameters_and_moments_where_they_lie) {
  const Graph graph = training_step(find_workload("lenet5").build(4), {});
  for (const Sharing sharing : all_sharings) {
    const MemoryPlan plan = plan_memory(graph, plain_bytes(graph), {.sharing = sharing});
    EXPECT_TRUE(plan.copies.empty());
    for (const Update& update : graph.updates()) {
      EXPECT_EQ(plan.storage[static_cast<std::size_t>(update.source)], update.target);
    }
  }
}

TEST(MemoryPlan, copies_a_state_at_the_end_if_it_is_read_late) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId state = b.state("state", {4, 4}, "zeros");
  const ValueId next = b.relu(state, "next");
  graph.add_update(state, next);
  graph.add_output("y", b.relu(b.add(state, next)));
  const MemoryPlan plan = plan_memory(graph, plain_bytes(graph));
  ASSERT_EQ(plan.copies.size(), 1u);
  EXPECT_EQ(plan.copies[0].source, next);
  EXPECT_EQ(plan.storage[static_cast<std::size_t>(next)], next);
}

TEST(MemoryPlan, flatten_of_the_images_needs_no_bytes) {
  Graph graph("g");
  GraphBuilder b(graph);
  const ValueId x = b.flatten(b.input("inputs", {4, 1, 8, 8}), "flat");
  graph.add_output("y", b.linear("fc", x, 16));
  const MemoryPlan plan = plan_memory(graph, plain_bytes(graph));
  EXPECT_EQ(plan.storage[static_cast<std::size_t>(x)], graph.find("inputs"));
  EXPECT_EQ(plan.arena_bytes, 4 * 16 * 4);
}

TEST(MemoryPlan, is_the_same_each_time) {
  const Graph graph = training_step(find_workload("cnn").build(4), {});
  EXPECT_EQ(plan_memory(graph, plain_bytes(graph)).offset, plan_memory(graph, plain_bytes(graph)).offset);
}

TEST(MemoryPlan, co_share_of_lenet5_is_near_its_lower_bound) {
  const Graph graph = training_step(find_workload("lenet5").build(200), {});
  const MemoryPlan plan = plan_memory(graph, plain_bytes(graph));
  EXPECT_LE(static_cast<double>(plan.arena_bytes), 1.1 * static_cast<double>(plan.lower_bound));
}

}  // namespace
}  // namespace assay
