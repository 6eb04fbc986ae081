#include "harness/graph/passes/recompute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/graph/op.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

// Ops that take much longer than reading their operands, and lookups in a table.
constexpr std::array<std::string_view, 7> costly{"attention", "convolution", "dot",   "embedding",
                                                 "linear",    "lstm",        "matmul"};

bool is_costly(const Node& node) { return std::ranges::find(costly, node.op->name()) != costly.end(); }
bool saves_more(const Node& node) {
  return std::ranges::any_of(node.op->results(), [](const Result& result) { return result.saved; });
}

std::vector<Segment> mirror_segments(const Graph& forward) {
  std::vector<Segment> segments;
  auto end_at = [&, begin = std::int64_t{0}](std::int64_t end, std::int64_t next) mutable {
    // A segment of only a product has nothing to compute again.
    if (end - begin > 1) segments.push_back({begin, end});
    begin = next;
  };
  const auto count = static_cast<std::int64_t>(forward.nodes().size());
  for (std::int64_t i = 0; i < count; ++i) {
    const Node& node = forward.nodes()[index(i)];
    if (is_costly(node)) end_at(saves_more(node) ? i : i + 1, i + 1);
  }
  return segments;
}

// For each node, in bytes: what the nodes until then have made, and what later nodes read of it.
struct Sizes {
  std::vector<double> made, crossing;
};

Sizes sizes_of(const Graph& forward) {
  const std::vector<std::vector<NodeId>> readers = consumers(forward);
  const std::size_t count = forward.nodes().size();
  Sizes sizes{std::vector<double>(count, 0), std::vector<double>(count, 0)};
  double made = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (const ValueId id : forward.nodes()[i].outputs) {
      if (id == none || forward.value(id).opaque) continue;
      const auto bytes = static_cast<double>(forward.value(id).type.bytes());
      made += bytes;
      if (readers[index(id)].empty()) continue;
      for (std::size_t k = i; k < index(readers[index(id)].back()); ++k) sizes.crossing[k] += bytes;
    }
    sizes.made[i] = made;
  }
  return sizes;
}

std::vector<Segment> square_root_segments(const Graph& forward) {
  const Sizes sizes = sizes_of(forward);
  const std::size_t count = forward.nodes().size();
  const double wanted = sizes.made.back() / std::round(std::sqrt(static_cast<double>(count)));
  std::vector<Segment> segments;
  std::size_t begin = 0;
  double before = 0;  // bytes of the earlier segments
  while (sizes.made.back() - before > 1.5 * wanted) {
    // A segment has between a half and three halves of the wanted bytes, if its nodes permit that.
    std::optional<std::size_t> best;
    for (std::size_t i = begin; i + 1 < count; ++i) {
      const double bytes = sizes.made[i] - before;
      if (best && bytes > 1.5 * wanted) break;
      if (bytes < 0.5 * wanted) continue;
      const auto apart = [&](std::size_t last) { return std::abs(sizes.made[last] - before - wanted); };
      if (!best || std::pair(sizes.crossing[i], apart(i)) < std::pair(sizes.crossing[*best], apart(*best)))
        best = i;
    }
    if (!best) break;
    segments.push_back({static_cast<std::int64_t>(begin), static_cast<std::int64_t>(*best) + 1});
    before = sizes.made[*best];
    begin = *best + 1;
  }
  return segments;
}

class Recomputation {
 public:
  Recomputation(const Graph& step, const Graph& forward, const std::vector<Segment>& segments)
      : step_(step),
        copy_(step),
        segment_of_(step.nodes().size(), outside),
        again_(step.values().size(), none) {
    for (const Node& node : forward.nodes())
      first_backward_ = std::max(first_backward_, step.find_node(node.name) + 1);
    for (std::size_t k = 0; k < segments.size(); ++k)
      for (std::int64_t i = segments[k].begin; i < segments[k].end; ++i)
        segment_of_[index(step.find_node(forward.nodes()[index(i)].name))] = static_cast<int>(k);
    find_kept();
    walk(step, [&](ValueId id) { copy_.add_value(id); }, [&](NodeId id) { add(id); });
    copy_.add_outputs();
    copy_.add_updates();
  }

  Graph take() { return copy_.take().pruned(); }

 private:
  static constexpr int outside = -1;

  void find_kept() {
    const std::vector<std::vector<NodeId>> readers = consumers(step_);
    kept_.assign(step_.values().size(), true);
    for (std::size_t v = 0; v < step_.values().size(); ++v) {
      const Value& value = step_.values()[v];
      if (value.producer == none || segment_of_[index(value.producer)] == outside) continue;
      const bool small = !value.opaque && value.type.shape.size() <= 1;
      const bool crosses = std::ranges::any_of(readers[v], [&](NodeId reader) {
        return reader < first_backward_ && segment_of_[index(reader)] != segment_of_[index(value.producer)];
      });
      kept_[v] = small || crosses;
    }
    for (const Graph::Output& output : step_.outputs()) kept_[index(output.value)] = true;
    for (const Update& update : step_.updates()) kept_[index(update.source)] = true;
  }

  void add(NodeId id) {
    const Node& node = step_.node(id);
    if (id < first_backward_) return copy_.add_node(node);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(read(input));
    copy_.add_node(node, inputs);
  }

  // The value of the copy that a node of the backward pass reads for this one.
  ValueId read(ValueId id) {
    if (id == none || kept_[index(id)]) return copy_.at(id);
    if (again_[index(id)] == none) compute_again(step_.node(step_.value(id).producer));
    return again_[index(id)];
  }

  void compute_again(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(read(input));
    std::vector<bool> wanted;
    const std::vector<Result> results = node.op->results();
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      wanted.push_back(!result_at(results, i).optional || (output != none && !kept_[index(output)]));
    }
    Graph& graph = copy_.graph();
    const NodeId id =
        graph.add_node(*node.op, node.name + ".again", inputs, node.attributes, std::move(wanted));
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != none) again_[index(node.outputs[i])] = graph.node(id).outputs[i];
  }

  const Graph& step_;
  GraphCopy copy_;
  NodeId first_backward_ = 0;
  std::vector<int> segment_of_;  // of each node of the step
  std::vector<bool> kept_;       // for each value of the step
  std::vector<ValueId> again_;   // of the copy, for each value of the step
};

}  // namespace

std::vector<Segment> recompute_segments(const Graph& forward, std::string_view policy) {
  if (policy == "none") return {};
  if (policy == "mirror") return mirror_segments(forward);
  if (policy == "sqrt") return square_root_segments(forward);
  throw std::invalid_argument(fmt::format("[recompute] unknown policy '{}'", policy));
}

Graph with_recomputation(const Graph& step, const Graph& forward, const std::vector<Segment>& segments) {
  return segments.empty() ? step : Recomputation(step, forward, segments).take();
}

}  // namespace assay
