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
  explicit Drawing(const Graph& from) : from_(from), copy_(from) {
    schedule_ = copy_.graph().add_value("schedule", {DType::f32, {2}}, Role::schedule);
    seed_ = copy_.graph().add_value("seed", {DType::i32, {2}}, Role::seed);
    walk(
        from_, [&](ValueId id) { copy_.add_value(id); }, [&](NodeId id) { copy_node(from_.node(id)); });
    copy_.add_outputs();
    copy_.add_updates();
    for (const auto& [mask, drawn] : drawn_) copy_.graph().add_update(mask, drawn.value);
  }

  Graph take() { return copy_.take(); }

 private:
  struct Drawn {
    ValueId value = none;
    double rate = 0;
  };

  void copy_node(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) {
      const bool mask = id != none && from_.value(id).role == Role::mask;
      inputs.push_back(mask ? drawn(node, copy_.at(id)) : copy_.at(id));
    }
    copy_.add_node(node, inputs);
  }

  ValueId drawn(const Node& reader, ValueId mask) {
    const double rate = reader.attributes.number("rate");
    const auto [place, fresh] = drawn_.try_emplace(mask);
    if (fresh) {
      const std::array inputs{mask, schedule_, seed_};
      Graph& graph = copy_.graph();
      const NodeId node =
          graph.add_node(dropout_mask_op(), graph.value(mask).name + ".drawn", inputs, {{"rate", rate}});
      place->second = {graph.node(node).outputs[0], rate};
    }
    if (place->second.rate != rate) {
      throw GraphError(fmt::format("graph '{}': '{}' is drawn with rate {} and node '{}' drops with rate {}",
                                   from_.name(), copy_.graph().value(mask).name, place->second.rate,
                                   reader.name, rate));
    }
    return place->second.value;
  }

  const Graph& from_;
  GraphCopy copy_;
  ValueId schedule_ = none, seed_ = none;
  std::map<ValueId, Drawn> drawn_;
};

}  // namespace

Graph with_drawn_masks(const Graph& graph) {
  if (graph.with_role(Role::mask).empty()) return graph;
  return Drawing(graph).take();
}

}  // namespace assay
