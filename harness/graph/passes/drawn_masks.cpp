#include "harness/graph/passes/drawn_masks.hpp"

#include <fmt/format.h>

#include <array>
#include <map>

#include "harness/core/error.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/ops/op_list.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

class Drawing {
 public:
  explicit Drawing(const Graph& from) : from_(from), to_(from.name()), moved_(from.values().size(), none) {
    schedule_ = to_.add_value("schedule", {DType::f32, {2}}, Role::schedule);
    seed_ = to_.add_value("seed", {DType::i32, {2}}, Role::seed);
    walk(from_, [&](ValueId id) { copy_value(id); }, [&](NodeId id) { copy_node(from_.node(id)); });
    for (const Graph::Output& output : from_.outputs()) to_.add_output(output.name, at(output.value));
    for (const Update& update : from_.updates()) to_.add_update(at(update.target), at(update.source));
    for (const auto& [mask, drawn] : drawn_) to_.add_update(mask, drawn.value);
  }

  Graph take() { return std::move(to_); }

 private:
  struct Drawn {
    ValueId value = none;
    double rate = 0;
  };

  ValueId at(ValueId id) const { return id == none ? none : moved_[static_cast<std::size_t>(id)]; }

  void copy_value(ValueId id) {
    const Value& value = from_.value(id);
    moved_[static_cast<std::size_t>(id)] =
        to_.add_value(value.name, value.type, value.role, value.initializer);
  }

  void copy_node(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) {
      const bool mask = id != none && from_.value(id).role == Role::mask;
      inputs.push_back(mask ? drawn(node, at(id)) : at(id));
    }
    std::vector<bool> wanted;
    for (const ValueId id : node.outputs) wanted.push_back(id != none);
    const NodeId added = to_.add_node(*node.op, node.name, inputs, node.attributes, std::move(wanted));
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] != none)
        moved_[static_cast<std::size_t>(node.outputs[o])] = to_.node(added).outputs[o];
    }
  }

  ValueId drawn(const Node& reader, ValueId mask) {
    const double rate = reader.attributes.number("rate");
    const auto [place, fresh] = drawn_.try_emplace(mask);
    if (fresh) {
      const std::array inputs{mask, schedule_, seed_};
      const NodeId node =
          to_.add_node(dropout_mask_op(), to_.value(mask).name + ".drawn", inputs, {{"rate", rate}});
      place->second = {to_.node(node).outputs[0], rate};
    }
    if (place->second.rate != rate) {
      throw GraphError(fmt::format("graph '{}': '{}' is drawn with rate {} and node '{}' drops with rate {}",
                                   from_.name(), to_.value(mask).name, place->second.rate, reader.name,
                                   rate));
    }
    return place->second.value;
  }

  const Graph& from_;
  Graph to_;
  std::vector<ValueId> moved_;
  ValueId schedule_ = none, seed_ = none;
  std::map<ValueId, Drawn> drawn_;
};

}  // namespace

Graph with_drawn_masks(const Graph& graph) {
  if (graph.with_role(Role::mask).empty()) return graph;
  return Drawing(graph).take();
}

}  // namespace assay
