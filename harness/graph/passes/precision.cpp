#include "harness/graph/passes/precision.hpp"

#include <fmt/format.h>

#include <array>
#include <map>

#include "harness/graph/op.hpp"
#include "harness/graph/ops/registry.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

class Conversion {
 public:
  Conversion(const Graph& from, const Precision& precision)
      : from_(from), precision_(precision), copy_(from) {
    walk(from_, [&](ValueId id) { copy_value(id); }, [&](NodeId id) { copy_node(from_.node(id)); });
    for (const Graph::Output& output : from_.outputs())
      copy_.graph().add_output(output.name, as(output.value, precision_.master));
    for (const Update& update : from_.updates())
      copy_.graph().add_update(copy_.at(update.target), as(update.source, kept_type(update.target)));
  }

  Graph take() { return copy_.take(); }

 private:
  DType dtype(ValueId id) { return copy_.graph().value(copy_.at(id)).type.dtype; }

  // The type of a fed or persistent value. A cache holds results of products, so it has their type.
  DType kept_type(ValueId id) const {
    return from_.value(id).role == Role::cache ? precision_.storage : precision_.master;
  }

  void copy_value(ValueId id) {
    TensorType type = from_.value(id).type;
    if (is_floating(type.dtype)) type.dtype = kept_type(id);
    copy_.add_value(id, std::move(type));
  }

  // The value with the type of an operand or output; adds a cast if its type differs.
  ValueId as(ValueId id, DType wanted) {
    if (id == none || !is_floating(dtype(id)) || from_.value(id).opaque || dtype(id) == wanted)
      return copy_.at(id);
    const auto [place, fresh] = casts_.try_emplace({id, wanted}, none);
    if (fresh) {
      const std::string name = fmt::format("{}.{}", from_.value(id).name, to_string(wanted));
      const std::array inputs{copy_.at(id)};
      Graph& graph = copy_.graph();
      const NodeId cast =
          graph.add_node(cast_op(), name, inputs, {{"dtype", std::string(to_string(wanted))}});
      place->second = graph.node(cast).outputs[0];
    }
    return place->second;
  }

  // The type for operands of Kind::any: their own type, or the storage type if they differ.
  DType common_type(const Node& node, const std::vector<Operand>& operands) {
    DType common = precision_.storage;
    bool seen = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == none || operand_at(*node.op, operands, i).kind != Kind::any) continue;
      const bool fed = from_.value(node.inputs[i]).role == Role::input;
      const DType own = fed ? precision_.storage : dtype(node.inputs[i]);
      if (seen && own != common) return precision_.storage;
      common = own;
      seen = true;
    }
    return common;
  }

  void copy_node(const Node& node) {
    const std::vector<Operand> operands = node.op->operands();
    const DType common = common_type(node, operands);
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      switch (operand_at(*node.op, operands, i).kind) {
        case Kind::storage:
          inputs.push_back(as(node.inputs[i], precision_.storage));
          break;
        case Kind::master:
          inputs.push_back(as(node.inputs[i], precision_.master));
          break;
        case Kind::any:
          inputs.push_back(as(node.inputs[i], common));
          break;
        case Kind::index:
          inputs.push_back(copy_.at(node.inputs[i]));
          break;
      }
    }
    const bool mask = node.op == &padding_mask_op() || node.op == &cache_mask_op();
    const bool typed = node.op == &constant_op() || (mask && precision_.master != DType::f32);
    if (!typed) return copy_.add_node(node, inputs);
    Node changed = node;
    changed.attributes.set("dtype", std::string(to_string(precision_.master)));
    copy_.add_node(changed, inputs);
  }

  const Graph& from_;
  const Precision& precision_;
  GraphCopy copy_;
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
};

}  // namespace

Precision precision_of(PrecisionKind kind) {
  switch (kind) {
    case PrecisionKind::fp32:
      break;
    case PrecisionKind::tf32:
      return {kind, DType::f32, DType::f32, true};
    case PrecisionKind::bf16:
      return {kind, DType::bf16, DType::f32, false};
    case PrecisionKind::fp64:
      return {kind, DType::f64, DType::f64, false};
  }
  return {};
}

Graph apply_precision(const Graph& graph, const Precision& precision) {
  return Conversion(graph, precision).take();
}

}  // namespace assay
