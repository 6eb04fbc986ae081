#include "harness/graph/memory_plan/summary.hpp"

#include "harness/graph/memory_plan/memory_plan.hpp"
#include "harness/graph/op.hpp"

namespace assay {
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
  for (const Role role : {Role::parameter, Role::state, Role::mask}) {
    for (const ValueId id : graph.with_role(role)) summary.persistent_bytes += graph.value(id).type.bytes();
  }
  summary.arena = plan_sizes(graph);
  return summary;
}

}  // namespace

ArenaSummary plan_sizes(const Graph& graph) {
  const ByteSize bytes = plain_bytes(graph);
  const MemoryPlan shared = plan_memory(graph, bytes, {.sharing = Sharing::co_share});
  return {plan_memory(graph, bytes, {.sharing = Sharing::naive}).arena_bytes,
          plan_memory(graph, bytes, {.sharing = Sharing::in_place}).arena_bytes, shared.arena_bytes,
          shared.lower_bound};
}

ProgramSummary summarise(const Program& program, const Precision& precision) {
  ProgramSummary summary;
  summary.workload = program.training.name();
  summary.precision = precision.name;
  const ValueId inputs = program.training.find("inputs");
  if (inputs != none) summary.batch = program.training.value(inputs).type.shape.at(0);
  for (const ValueId id : program.training.with_role(Role::parameter)) {
    summary.parameters += program.training.value(id).type.elements();
  }
  const Graph step = training_step(program, {.precision = precision});
  summary.training = summarise(step);
  summary.inference = summarise(inference_step(program, precision));
  for (const Node& node : step.nodes()) {
    const double flops = cost(step, node).flops;
    if (program.training.find_node(node.name) != none) {
      summary.forward_flops += flops;
    } else if (node.op->name() == program.optimizer.kind) {
      summary.optimizer_flops += flops;
    } else {
      summary.backward_flops += flops;
    }
  }
  return summary;
}

}  // namespace assay
