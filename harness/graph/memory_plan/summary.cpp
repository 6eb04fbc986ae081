#include "harness/graph/memory_plan/summary.hpp"

#include <algorithm>
#include <functional>

#include "harness/graph/memory_plan/memory_plan.hpp"
#include "harness/graph/op.hpp"

namespace assay {
namespace {

struct Storage {
  std::int64_t bytes = 0;
  Lifetime life{0, -1};
};

}  // namespace

Peak peak_of(const Graph& graph, const ByteSize& bytes) {
  const MemoryPlan plan = plan_memory(graph, bytes);
  const std::vector<Lifetime> lives = liveness(graph);
  std::vector<Storage> storages(lives.size());  // by root
  for (std::size_t v = 0; v < lives.size(); ++v) {
    if (plan.offset[v] < 0) continue;
    Storage& storage = storages[index(plan.storage[v])];
    if (storage.life.last < 0) {
      storage.life = lives[v];
    } else {
      storage.life = {std::min(storage.life.first, lives[v].first),
                      std::max(storage.life.last, lives[v].last)};
    }
    storage.bytes = std::max(storage.bytes, aligned(bytes(static_cast<ValueId>(v))));
  }

  std::vector<std::int64_t> change(graph.nodes().size() + 2, 0);
  for (const Storage& storage : storages) {
    if (storage.life.last < 0) continue;
    change[index(storage.life.first)] += storage.bytes;
    change[index(storage.life.last + 1)] -= storage.bytes;
  }
  Peak peak;
  std::int64_t now = 0;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    now += change[n];
    if (now > peak.bytes) {
      peak.bytes = now;
      peak.node = static_cast<NodeId>(n);
    }
  }

  // For each storage, the value that is alive in it; if a result overwrites its operand, the result.
  std::vector<ValueId> holder(lives.size(), none);
  for (std::size_t v = 0; v < lives.size(); ++v) {
    if (plan.offset[v] < 0 || lives[v].first > peak.node) continue;
    ValueId& held = holder[index(plan.storage[v])];
    if (held == none || lives[v].last >= peak.node) held = static_cast<ValueId>(v);
  }
  for (std::size_t s = 0; s < storages.size(); ++s) {
    const Storage& storage = storages[s];
    if (storage.life.last < peak.node || storage.life.first > peak.node || holder[s] == none) continue;
    const bool kept = storage.life.last >= static_cast<std::int64_t>(graph.nodes().size());
    peak.live.push_back({holder[s], storage.bytes, kept ? none : static_cast<NodeId>(storage.life.last)});
  }
  std::ranges::stable_sort(peak.live, std::greater<>(), &LiveValue::bytes);
  return peak;
}

namespace {

NodeSummary summarise(const Graph& graph, const Node& node) {
  NodeSummary summary{node.name, std::string(node.op->name()), to_string(graph.value(node.outputs[0]).type)};
  for (const ValueId id : node.inputs) {
    if (id != none && graph.value(id).role == Role::parameter)
      summary.parameters += graph.value(id).type.elements();
  }
  const Cost node_cost = cost(graph, node);
  summary.flops = node_cost.flops;
  summary.bytes = node_cost.bytes;
  return summary;
}

StepSummary summarise(const Graph& graph) {
  StepSummary summary;
  for (const Node& node : graph.nodes()) {
    summary.nodes.push_back(summarise(graph, node));
    summary.flops += summary.nodes.back().flops;
    summary.bytes += summary.nodes.back().bytes;
  }
  for (const Role role : {Role::parameter, Role::state, Role::mask, Role::cache, Role::position}) {
    for (const ValueId id : graph.with_role(role)) summary.persistent_bytes += graph.value(id).type.bytes();
  }
  summary.arena = plan_sizes(graph);
  return summary;
}

}  // namespace

ArenaSummary plan_sizes(const Graph& graph) {
  const ByteSize bytes = plain_bytes(graph);
  const MemoryPlan shared = plan_memory(graph, bytes, {.sharing = Sharing::co_share});
  const auto arena = [&](Sharing sharing) {
    return plan_memory(graph, bytes, {.sharing = sharing}).arena_bytes;
  };
  return {.naive = arena(Sharing::naive),
          .in_place = arena(Sharing::in_place),
          .co_share_only = arena(Sharing::co_share_only),
          .co_share = shared.arena_bytes,
          .lower_bound = shared.lower_bound};
}

ProgramSummary summarise(const Program& program, const Precision& precision) {
  ProgramSummary summary;
  const Graph& network = program.inference;
  summary.workload = network.name();
  summary.precision = precision.kind;
  const ValueId inputs = network.find("inputs");
  if (inputs != none) summary.batch = network.value(inputs).type.shape.at(0);
  for (const ValueId id : network.with_role(Role::parameter))
    summary.parameters += network.value(id).type.elements();
  summary.inference = summarise(inference_step(program, precision));
  summary.forward_flops = summary.inference.flops;
  if (!program.training) return summary;
  const Graph step = training_step(program, {.precision = precision});
  summary.training = summarise(step);
  summary.forward_flops = 0;
  for (const Node& node : step.nodes()) {
    const double flops = cost(step, node).flops;
    if (program.training->find_node(node.name) != none) {
      summary.forward_flops += flops;
    } else if (program.optimizer && node.op->name() == program.optimizer->kind) {
      summary.optimizer_flops += flops;
    } else {
      summary.backward_flops += flops;
    }
  }
  return summary;
}

}  // namespace assay
