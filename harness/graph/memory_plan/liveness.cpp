#include "harness/graph/memory_plan/liveness.hpp"

#include <algorithm>

#include "harness/graph/passes/walk.hpp"

namespace assay {

ByteSize plain_bytes(const Graph& graph) {
  return [&graph](ValueId id) {
    const Value& value = graph.value(id);
    if (!value.opaque) return value.type.bytes();
    const ValueId first = graph.node(value.producer).outputs.front();
    return graph.value(first).type.elements() * std::int64_t{4};
  };
}

std::vector<Lifetime> liveness(const Graph& graph) {
  const auto end = static_cast<std::int64_t>(graph.nodes().size());
  const std::vector<std::vector<NodeId>> readers = consumers(graph);
  std::vector<Lifetime> lives;
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const NodeId producer = graph.values()[v].producer;
    if (producer == none) {
      lives.push_back({0, end});
    } else {
      lives.push_back({producer, readers[v].empty() ? producer : readers[v].back()});
    }
  }
  for (const Graph::Output& output : graph.outputs())
    lives[static_cast<std::size_t>(output.value)].last = end;
  for (const Update& update : graph.updates()) lives[static_cast<std::size_t>(update.source)].last = end;
  return lives;
}

}  // namespace assay
