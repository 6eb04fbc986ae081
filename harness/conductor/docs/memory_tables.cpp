#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "harness/conductor/docs/blocks.hpp"
#include "harness/graph/memory_plan/summary.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/recompute.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

// MXNet's documents (2015), over networks like AlexNet, VGG and Inception.
constexpr double claimed_for_training = 2, claimed_for_prediction = 4;

std::string mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20));
}

double saving(const ArenaSummary& arena) {
  return static_cast<double>(arena.naive) / static_cast<double>(arena.co_share);
}

std::string plan_row(const Workload& workload, const char* task, const ArenaSummary& arena, double claimed) {
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} | {:.2f}x | {:g}x | {} |\n", workload.name,
                     workload.batch, task, mebibytes(arena.naive), mebibytes(arena.in_place),
                     mebibytes(arena.co_share_only), mebibytes(arena.co_share), saving(arena), claimed,
                     mebibytes(arena.lower_bound));
}

// The tensors alive at the peak, grouped by the op that made it and the op that reads it last.
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
      "### {}, {}: {} MiB at `{}`\n\n| tensors | made by | read last by | MiB |\n|---|---|---|---|\n", name,
      task, mebibytes(peak.bytes), graph.node(peak.node).name);
  for (const auto& [ends, group] : order) {
    text +=
        fmt::format("| {} | {} | {} | {} |\n", group.count, ends.first, ends.second, mebibytes(group.bytes));
  }
  return text;
}

}  // namespace

std::string memory_plan_table() {
  std::string text =
      "| workload | batch | task | naive | in place | co-share | in place + co-share | saving | claimed | no "
      "plan is below |\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Workload& workload : all_workloads()) {
    const Program program = workload.build(workload.batch);
    text += plan_row(workload, "train", plan_sizes(training_step(program, {})), claimed_for_training);
    text += plan_row(workload, "infer", plan_sizes(inference_step(program, {})), claimed_for_prediction);
  }
  return text;
}

std::string recomputation_table() {
  std::string text =
      "| workload | batch | nothing again | mirror | FLOPs | sqrt | FLOPs |\n|---|---|---|---|---|---|---|\n";
  for (const Workload& workload : all_workloads()) {
    Program program = workload.build(workload.batch);
    const StepSummary kept = summarise(program, {}).training.value();
    const std::int64_t all = kept.arena.co_share;
    text += fmt::format("| {} | {} | {} |", workload.name, workload.batch, mebibytes(all));
    for (const char* policy : {"mirror", "sqrt"}) {
      program.segments = recompute_segments(*program.training, policy);
      const StepSummary step = summarise(program, {}).training.value();
      const std::int64_t needed = step.arena.co_share;
      text += fmt::format(" {} ({:.0f} %) | {:+.0f} % |", mebibytes(needed),
                          100 * static_cast<double>(needed) / static_cast<double>(all),
                          100 * (step.flops / kept.flops - 1));
    }
    text += '\n';
  }
  return text;
}

std::string memory_bound_tables() {
  std::string text;
  const auto add = [&](const std::string& name, const char* task, const Graph& graph) {
    text += (text.empty() ? "" : "\n") + bound_table(name, task, graph);
  };
  for (const Workload& workload : all_workloads()) {
    const Program program = workload.build(workload.batch);
    const Graph training = training_step(program, {}), inference = inference_step(program, {});
    if (workload.name == "resnet56" || saving(plan_sizes(training)) < claimed_for_training)
      add(workload.name, "training", training);
    if (saving(plan_sizes(inference)) < claimed_for_prediction) add(workload.name, "prediction", inference);
  }
  return text;
}

}  // namespace assay
