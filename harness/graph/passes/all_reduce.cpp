#include "harness/graph/passes/all_reduce.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "harness/graph/op.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {

std::vector<std::vector<std::size_t>> buckets(const Graph& graph, const std::vector<ValueId>& gradients,
                                              const BucketLimits& limits) {
  std::vector<std::size_t> order(gradients.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return graph.value(gradients[i]).producer; });
  std::vector<std::vector<std::size_t>> all;
  std::int64_t bytes = 0;
  bool full = true;
  for (const std::size_t i : order) {
    if (full) all.emplace_back();
    if (full) bytes = 0;
    all.back().push_back(i);
    bytes += graph.value(gradients[i]).type.elements() * size_of(DType::f32);
    full = bytes >= (all.size() == 1 ? limits.first : limits.next);
  }
  return all;
}

std::vector<ValueId> add_all_reduce(Graph& graph, const std::vector<ValueId>& gradients,
                                    const BucketLimits& limits) {
  std::vector<ValueId> unlike;
  for (const ValueId value : gradients)
    if (std::ranges::find(unlike, value) == unlike.end()) unlike.push_back(value);
  std::map<ValueId, ValueId> means;
  int number = 0;
  for (const std::vector<std::size_t>& bucket : buckets(graph, unlike, limits)) {
    const std::string name = fmt::format("bucket{}", ++number);
    std::vector<ValueId> values;
    for (const std::size_t i : bucket) values.push_back(unlike[i]);
    std::vector<ValueId> inputs{
        graph.node(graph.add_node(all_reduce_start_op(), name + ".start", values)).outputs[0]};
    inputs.insert(inputs.end(), values.begin(), values.end());
    const Node& wait = graph.node(graph.add_node(all_reduce_wait_op(), name + ".mean", inputs));
    for (std::size_t i = 0; i < values.size(); ++i) means[values[i]] = wait.outputs[i];
  }
  std::vector<ValueId> result;
  for (const ValueId value : gradients) result.push_back(means.at(value));
  return result;
}

namespace {

class Overlap {
 public:
  explicit Overlap(const Graph& from) : from_(from), copy_(from), added_(from.nodes().size(), false) {
    for (NodeId id = 0; id < static_cast<NodeId>(from_.nodes().size()); ++id)
      if (from_.node(id).op == &all_reduce_start_op()) starts_.push_back(id);
    for (ValueId id = 0; id < static_cast<ValueId>(from_.values().size()); ++id)
      if (from_.value(id).producer == none) copy_.add_value(id);
    for (NodeId id = 0; id < static_cast<NodeId>(from_.nodes().size()); ++id) {
      const Op* op = from_.node(id).op;
      if (op == &all_reduce_start_op() || op == &all_reduce_wait_op()) continue;
      add(id);
      add_ready_starts();
    }
    for (NodeId id = 0; id < static_cast<NodeId>(from_.nodes().size()); ++id) add(id);  // that nothing reads
    copy_.add_outputs();
    copy_.add_updates();
  }

  Graph take() { return copy_.take(); }

 private:
  // After the waits for what it reads.
  void add(NodeId id) {
    if (added_[index(id)]) return;
    added_[index(id)] = true;
    for (const ValueId input : from_.node(id).inputs)
      if (input != none && from_.value(input).producer != none) add(from_.value(input).producer);
    copy_.add_node(from_.node(id));
  }

  // Or only a cast is missing, which comes with the start.
  bool is_computed(ValueId value) const {
    const NodeId producer = from_.value(value).producer;
    if (producer == none || added_[index(producer)]) return true;
    const Node& node = from_.node(producer);
    return node.op == &cast_op() && is_computed(node.inputs[0]);
  }

  void add_ready_starts() {
    const auto ready = [this](NodeId start) {
      return std::ranges::all_of(from_.node(start).inputs, [this](ValueId v) { return is_computed(v); });
    };
    for (; next_ < starts_.size() && ready(starts_[next_]); ++next_) add(starts_[next_]);
  }

  const Graph& from_;
  GraphCopy copy_;
  std::vector<bool> added_;
  std::vector<NodeId> starts_;
  std::size_t next_ = 0;
};

}  // namespace

Graph with_overlap(const Graph& graph) { return Overlap(graph).take(); }

}  // namespace assay
