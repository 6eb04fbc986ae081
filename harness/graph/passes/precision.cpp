#include "harness/graph/passes/precision.hpp"

#include <fmt/format.h>

#include <array>
#include <map>

#include "harness/core/error.hpp"
#include "harness/core/nearest.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/ops/op_list.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

const std::array<Precision, 4>& policies() {
  static const std::array<Precision, 4> all{
      Precision{"fp32", DType::f32, DType::f32, false}, Precision{"tf32", DType::f32, DType::f32, true},
      Precision{"bf16", DType::bf16, DType::f32, false}, Precision{"fp64", DType::f64, DType::f64, false}};
  return all;
}

class Conversion {
 public:
  Conversion(const Graph& from, const Precision& precision)
      : from_(from), precision_(precision), to_(from.name()), moved_(from.values().size(), none) {
    walk(from_, [&](ValueId id) { copy_value(id); }, [&](NodeId id) { copy_node(from_.node(id)); });
    for (const Graph::Output& output : from_.outputs())
      to_.add_output(output.name, as(output.value, precision_.master));
    for (const Update& update : from_.updates()) {
      to_.add_update(at(update.target), as(update.source, precision_.master));
    }
  }

  Graph take() { return std::move(to_); }

 private:
  ValueId at(ValueId id) const { return id == none ? none : moved_[static_cast<std::size_t>(id)]; }
  DType dtype(ValueId id) const { return to_.value(at(id)).type.dtype; }

  void copy_value(ValueId id) {
    const Value& value = from_.value(id);
    TensorType type = value.type;
    if (is_floating(type.dtype)) type.dtype = precision_.master;
    moved_[static_cast<std::size_t>(id)] =
        to_.add_value(value.name, std::move(type), value.role, value.initializer);
  }

  // The value as an operand or output of a type, cast where it is of another.
  ValueId as(ValueId id, DType wanted) {
    if (id == none || !is_floating(dtype(id)) || from_.value(id).opaque || dtype(id) == wanted) return at(id);
    const auto [place, fresh] = casts_.try_emplace({id, wanted}, none);
    if (fresh) {
      const std::string name = fmt::format("{}.{}", from_.value(id).name, to_string(wanted));
      const std::array inputs{at(id)};
      place->second =
          to_.node(to_.add_node(cast_op(), name, inputs, {{"dtype", std::string(to_string(wanted))}}))
              .outputs[0];
    }
    return place->second;
  }

  // What operands of Kind::any get: their own type, or where they disagree the storage type.
  DType common_type(const Node& node, const std::vector<Operand>& operands) const {
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
          inputs.push_back(at(node.inputs[i]));
          break;
      }
    }
    Attributes attributes = node.attributes;
    if (node.op == &constant_op()) attributes.set("dtype", std::string(to_string(precision_.master)));
    std::vector<bool> wanted;
    for (const ValueId id : node.outputs) wanted.push_back(id != none);
    const Node& added = to_.node(to_.add_node(*node.op, node.name, inputs, std::move(attributes), wanted));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != none) moved_[static_cast<std::size_t>(node.outputs[i])] = added.outputs[i];
    }
  }

  const Graph& from_;
  const Precision& precision_;
  Graph to_;
  std::vector<ValueId> moved_;
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
};

}  // namespace

Precision parse_precision(std::string_view name) {
  std::vector<std::string> known;
  for (const Precision& precision : policies()) {
    if (precision.name == name) return precision;
    known.push_back(precision.name);
  }
  throw GraphError(fmt::format("'{}' is no precision{}", name.substr(0, 40), suggestion(name, known)));
}

Graph apply_precision(const Graph& graph, const Precision& precision) {
  return Conversion(graph, precision).take();
}

}  // namespace assay
