// docs/reference/memory.md is written from the plans, so that it cannot say anything else.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "harness/graph/memory_plan/summary.hpp"
#include "harness/graph/op.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

// ASSAY_DOCS is the folder docs/ of the source tree.
const std::string page = std::string(ASSAY_DOCS) + "/reference/memory.md";

constexpr double claimed_for_training = 2, claimed_for_prediction = 4;

std::string mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20));
}

double saving(const ArenaSummary& arena) {
  return static_cast<double>(arena.naive) / static_cast<double>(arena.co_share);
}

std::string row(const std::string& name, std::int64_t batch, const char* task, const ArenaSummary& arena,
                double claimed) {
  return fmt::format("| {} | {} | {} | {} | {} | {} | {:.2f}x | {:g}x | {} |\n", name, batch, task,
                     mebibytes(arena.naive), mebibytes(arena.in_place), mebibytes(arena.co_share),
                     saving(arena), claimed, mebibytes(arena.lower_bound));
}

// The tensors alive at the peak, gathered by their producer and their remaining readers.
std::string bound_table(const std::string& name, const char* task, const Graph& graph) {
  const Peak peak = peak_of(graph, plain_bytes(graph));
  struct Group {
    int count = 0;
    std::int64_t bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const LiveValue& live : peak.live) {
    const Value& value = graph.value(live.value);
    const std::string maker(graph.node(value.producer).op->name());
    const std::string reader =
        live.last_reader == none ? "kept to the end" : std::string(graph.node(live.last_reader).op->name());
    Group& group = groups[{maker, reader}];
    ++group.count;
    group.bytes += live.bytes;
  }
  std::vector<std::pair<std::pair<std::string, std::string>, Group>> order(groups.begin(), groups.end());
  std::ranges::stable_sort(order, std::greater<>(), [](const auto& item) { return item.second.bytes; });
  std::string text = fmt::format(
      "\n### {}, {}: {} MiB at `{}`\n\n| tensors | made by | read last by | MiB |\n|---|---|---|---|\n", name,
      task, mebibytes(peak.bytes), graph.node(peak.node).name);
  for (const auto& [ends, group] : order) {
    text +=
        fmt::format("| {} | {} | {} | {} |\n", group.count, ends.first, ends.second, mebibytes(group.bytes));
  }
  return text;
}

constexpr std::string_view introduction =
    "# Memory plans\n\n"
    "The arena of one step in MiB: fp32, each workload's own batch, the unfused graph with plain layouts. "
    "*Naive* gives every tensor bytes of its own;\n"
    "*in place* writes a result over an operand that dies there; *co-share* lets tensors that never live "
    "together have the same bytes. Parameters,\n"
    "moments, running statistics and dropout masks persist and are not counted. No plan of these in-place "
    "rules and this order of nodes is below the\n"
    "last column, the most bytes alive at once. MXNet's documents (2015) claim 2x for training and 4x for "
    "prediction over networks like AlexNet, VGG\n"
    "and Inception. The page is written by `ASSAY_WRITE_DOCS=1 build/dev/memory_plan_test "
    "--gtest_filter='MemoryPage.*'`; `assay inspect WORKLOAD` and every\n"
    "report have the same numbers, `assay run configs/mxnet-memory.json` beside the claims.\n\n"
    "| workload | batch | task | naive | in place | in place + co-share | saving | claimed | no plan is "
    "below |\n"
    "|---|---|---|---|---|---|---|---|---|\n";

constexpr std::string_view bounds =
    "\n## What bounds them\n\n"
    "Where a saving is below the claim the plan is at its bound, or nearly: what is alive at the peak, by "
    "the op that made it and the one that reads\n"
    "it last. In prediction two neighbouring layers are alive at once, so a network of few layers cannot "
    "save more than their share of the whole. In\n"
    "training every activation that a gradient reads must outlive the forward pass: behind a convolution and "
    "a ReLU that is one tensor (the gradient of\n"
    "a ReLU reads its result, and so does the next layer's weight gradient), with a batch norm between them "
    "two. A small batch, as that of the MLP, leaves mostly\n"
    "the gradients of the parameters, which live until the update.\n";

std::string written() {
  std::string text(introduction), details(bounds);
  for (const Workload& workload : all_workloads()) {
    const Program program = workload.build(workload.batch);
    const Graph training = training_step(program, {}), inference = inference_step(program, {});
    const ArenaSummary of_training = plan_sizes(training), of_inference = plan_sizes(inference);
    text += row(workload.name, workload.batch, "train", of_training, claimed_for_training);
    text += row(workload.name, workload.batch, "infer", of_inference, claimed_for_prediction);
    const bool asked = workload.name == "resnet56";
    if (asked || saving(of_training) < claimed_for_training)
      details += bound_table(workload.name, "training", training);
    if (saving(of_inference) < claimed_for_prediction)
      details += bound_table(workload.name, "prediction", inference);
  }
  return text + details;
}

TEST(MemoryPage, agrees_with_the_plans) {
  const std::string now = written();
  const char* write = std::getenv("ASSAY_WRITE_DOCS");
  if (write != nullptr && std::string_view(write) == "1") std::ofstream(page) << now;
  std::ostringstream text;
  text << std::ifstream(page).rdbuf();
  EXPECT_EQ(text.str(), now) << "write it again with ASSAY_WRITE_DOCS=1";
}

// Study M names AlexNet-, VGG- and Inception-like networks; ResNet-56 is ours.
TEST(MemoryPlans, save_the_claimed_memory) {
  for (const char* name : {"alexnet", "overfeat", "vgg_a", "googlenet", "resnet56", "resnet50"}) {
    const Workload& workload = find_workload(name);
    const Program program = workload.build(workload.batch);
    EXPECT_GE(saving(plan_sizes(training_step(program, {}))), claimed_for_training) << name;
    EXPECT_GE(saving(plan_sizes(inference_step(program, {}))), claimed_for_prediction) << name;
  }
}

// Where the claim is not reached no placement could: the plan is within a twentieth of the bytes alive at
// once.
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

TEST(Peak, is_the_lower_bound_and_the_sum_of_live_tensors) {
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
