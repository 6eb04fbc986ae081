#include "harness/graph/memory_plan/memory_plan.hpp"

#include <algorithm>

#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

class Planner {
 public:
  Planner(const Graph& graph, const ByteSize& bytes, const PlanOptions& options)
      : graph_(graph),
        bytes_(bytes),
        options_(options),
        readers_(consumers(graph)),
        home_(graph.values().size()) {
    for (std::size_t v = 0; v < home_.size(); ++v) home_[v] = static_cast<ValueId>(v);
    for (std::size_t n = 0; n < graph.nodes().size(); ++n) pairs_.push_back(allowed(graph.nodes()[n]));
    for (const Update& update : graph.updates()) {
      if (update.source == update.target) continue;
      if (fits_home(update)) {
        home_[index(update.source)] = update.target;
      } else {
        plan_.copies.push_back(update);
      }
    }
    if (options.sharing != Sharing::naive) settle_views();
  }

  MemoryPlan run() {
    std::vector<PlannedBuffer> buffers;
    for (std::size_t v = 0; v < home_.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      const bool planned = graph_.value(id).producer != none && home_[v] == id;
      buffers.push_back({planned ? bytes_(id) : 0, planned, false});
    }
    for (const Graph::Output& output : graph_.outputs())
      buffers[index(home_[index(output.value)])].kept = true;
    for (const Update& update : graph_.updates()) buffers[index(home_[index(update.source)])].kept = true;

    std::vector<PlannedStep> steps;
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      const std::int64_t scratch = options_.scratch ? options_.scratch(static_cast<NodeId>(n)) : 0;
      steps.push_back({homes(node.inputs), homes(node.outputs), pairs_[n], scratch});
    }
    Placement placement = place(buffers, steps, options_.sharing);
    for (std::size_t v = 0; v < home_.size(); ++v) {
      plan_.storage.push_back(placement.storage[index(home_[v])]);
      plan_.offset.push_back(placement.offset[index(home_[v])]);
    }
    plan_.scratch_offset = std::move(placement.scratch_offset);
    plan_.arena_bytes = placement.bytes;
    plan_.lower_bound = placement.lower_bound;
    return std::move(plan_);
  }

 private:
  std::vector<InPlace> allowed(const Node& node) const {
    std::vector<InPlace> pairs = in_place(node);
    remove_unequal(pairs, graph_, node);
    if (options_.allows)
      std::erase_if(pairs, [&](const InPlace& pair) { return !options_.allows(node, pair); });
    return pairs;
  }

  std::vector<int> homes(const std::vector<ValueId>& ids) const {
    std::vector<int> buffers;
    for (const ValueId id : ids) buffers.push_back(id == none ? -1 : home_[index(id)]);
    return buffers;
  }

  bool fits_home(const Update& update) const {
    const NodeId producer = graph_.value(update.source).producer;
    if (producer == none || home_[index(update.source)] != update.source) return false;
    if (bytes_(update.source) != bytes_(update.target)) return false;
    for (const Graph::Output& output : graph_.outputs()) {
      if (output.value == update.target) return false;
    }
    const std::vector<NodeId>& readers = readers_[index(update.target)];
    if (!readers.empty() && readers.back() > producer) return false;
    // Another update may need the old bits at the end of the step.
    for (const Update& other : graph_.updates()) {
      if (other.source == update.target) return false;
    }
    const Node& node = graph_.node(producer);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != update.target) continue;
      const auto allows = [&](const InPlace& pair) {
        return node.outputs[static_cast<std::size_t>(pair.output)] == update.source &&
               static_cast<std::size_t>(pair.input) == i;
      };
      if (std::ranges::none_of(pairs_[static_cast<std::size_t>(producer)], allows)) return false;
    }
    return true;
  }

  // A view uses the bytes of its operand and keeps it alive. It is never a view of a persistent value,
  // because an update replaces those bits.
  void settle_views() {
    for (const Node& node : graph_.nodes()) {
      if (!node.op->view()) continue;
      const ValueId from = node.inputs[0];
      const ValueId to = node.outputs[0];
      if (home_[index(to)] != to || is_persistent(graph_.value(home_[index(from)]).role)) continue;
      if (options_.allows && !options_.allows(node, {0, 0})) continue;
      if (bytes_(from) != bytes_(to)) continue;
      home_[index(to)] = home_[index(from)];
    }
  }

  const Graph& graph_;
  const ByteSize& bytes_;
  const PlanOptions& options_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<ValueId> home_;  // before any value overwrites another
  std::vector<std::vector<InPlace>> pairs_;
  MemoryPlan plan_;
};

}  // namespace

MemoryPlan plan_memory(const Graph& graph, const ByteSize& bytes, const PlanOptions& options) {
  return Planner(graph, bytes, options).run();
}

}  // namespace assay
