#include "harness/graph/graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/walk.hpp"

namespace assay {
namespace {

constexpr std::array<std::string_view, 10> role_names{
    "input", "label", "schedule", "parameter", "state", "mask", "cache", "position", "seed", "intermediate"};

std::string output_name(const std::string& node, std::span<const Result> results, std::size_t i) {
  const std::size_t group = i / results.size();
  const Result& result = results[i % results.size()];
  if (group > 0) return fmt::format("{}.{}.{}", node, result.name, group + 1);
  return i == 0 ? node : fmt::format("{}.{}", node, result.name);
}

void check_attributes(const Op& op, const Attributes& attributes) {
  const std::vector<std::string> known = op.attributes();
  for (const auto& [name, value] : attributes.values()) {
    if (contains(known, name)) continue;
    throw GraphError(fmt::format("[{}] has no attribute '{}'{}", op.name(), name.substr(0, 40),
                                 known.empty() ? "; it has none" : suggestion(name, known)));
  }
}

void check_operands(const Graph& graph, const Op& op, std::span<const ValueId> inputs) {
  const std::vector<Operand> operands = op.operands();
  group_count(op, inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Operand& operand = operand_at(op, operands, i);
    if (inputs[i] == none) {
      if (!operand.optional)
        throw GraphError(fmt::format("[{}] operand '{}' is missing", op.name(), operand.name));
    } else if (inputs[i] < 0 || static_cast<std::size_t>(inputs[i]) >= graph.values().size()) {
      throw GraphError(fmt::format("[{}] operand '{}' is not a value of the graph", op.name(), operand.name));
    } else if (graph.value(inputs[i]).opaque && operand.kind != Kind::index) {
      throw GraphError(
          fmt::format("[{}] operand '{}' cannot be '{}': it is opaque, only its backend knows its layout",
                      op.name(), operand.name, graph.value(inputs[i]).name));
    }
  }
}

std::vector<TensorType> types_of(const Graph& graph, std::span<const ValueId> ids) {
  std::vector<TensorType> types;
  types.reserve(ids.size());
  for (const ValueId id : ids) types.push_back(id == none ? TensorType{} : graph.value(id).type);
  return types;
}

}  // namespace

bool is_persistent(Role role) {
  return role == Role::parameter || role == Role::state || role == Role::mask || role == Role::cache ||
         role == Role::position;
}
bool is_feed(Role role) {
  return role == Role::input || role == Role::label || role == Role::schedule || role == Role::seed;
}

std::string_view to_string(Role role) { return role_names.at(static_cast<std::size_t>(role)); }

Role parse_role(std::string_view name) {
  for (std::size_t i = 0; i < role_names.size(); ++i) {
    if (role_names[i] == name) return static_cast<Role>(i);
  }
  throw GraphError(
      fmt::format("unknown role '{}'; known are {}", name.substr(0, 40), fmt::join(role_names, ", ")));
}

ValueId Graph::find(std::string_view name) const {
  const auto found = value_ids_.find(name);
  return found == value_ids_.end() ? none : found->second;
}

NodeId Graph::find_node(std::string_view name) const {
  const auto found = node_ids_.find(name);
  return found == node_ids_.end() ? none : found->second;
}

ValueId Graph::output(std::string_view name) const {
  for (const Output& output : outputs_) {
    if (output.name == name) return output.value;
  }
  throw GraphError(fmt::format("graph '{}' has no output '{}'", name_, name));
}

bool Graph::has_output(std::string_view name) const {
  for (const Output& output : outputs_) {
    if (output.name == name) return true;
  }
  return false;
}

std::vector<ValueId> Graph::with_role(Role role) const {
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].role == role) ids.push_back(static_cast<ValueId>(i));
  }
  return ids;
}

ValueId Graph::add_value(std::string name, TensorType type, Role role, std::string initializer) {
  if (name.empty()) throw GraphError(fmt::format("graph '{}': a value without a name", name_));
  if (find(name) != none)
    throw GraphError(fmt::format("graph '{}': the value name '{}' is taken", name_, name));
  try {
    check_shape(type.shape);
  } catch (const GraphError& error) {
    throw GraphError(fmt::format("value '{}': {}", name, error.what()));
  }
  const auto id = static_cast<ValueId>(values_.size());
  value_ids_.emplace(name, id);
  values_.push_back({std::move(name), std::move(type), role, none, false, std::move(initializer)});
  return id;
}

NodeId Graph::add_node(const Op& op, std::string name, std::span<const ValueId> inputs, Attributes attributes,
                       std::vector<bool> wanted) {
  if (name.empty()) throw GraphError(fmt::format("[{}] a node without a name", op.name()));
  if (find_node(name) != none)
    throw GraphError(fmt::format("[{}] the node name '{}' is taken", op.name(), name));
  const std::vector<Result> results = op.results();
  std::vector<TensorType> types;
  std::vector<ValueId> padded(inputs.begin(), inputs.end());
  const std::vector<Operand> operands = op.operands();
  while (op.repeats() == 0 && padded.size() < operands.size() && operands[padded.size()].optional)
    padded.push_back(none);
  inputs = padded;
  try {
    check_attributes(op, attributes);
    check_operands(*this, op, inputs);
    std::vector<bool> present;
    for (const ValueId id : inputs) present.push_back(id != none);
    types = op.infer(attributes, types_of(*this, inputs), present);
    for (const TensorType& type : types) check_shape(type.shape);
  } catch (const GraphError& error) {
    const std::string text = error.what();
    const std::string prefix = text.starts_with('[') ? "" : fmt::format("[{}] ", op.name());
    throw GraphError(fmt::format("{}{} (node '{}')", prefix, text, name));
  }

  const std::size_t count = result_count(op, inputs.size());
  std::vector<std::string> names(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Result& result = result_at(results, i);
    const bool possible = i < types.size();
    const bool want = i < wanted.size() ? wanted[i] : possible && !result.fused;
    if (want && !possible) {
      throw GraphError(fmt::format("[{}] the result '{}' does not exist with these attributes (node '{}')",
                                   op.name(), result.name, name));
    }
    if (!want && possible && !result.optional) {
      throw GraphError(
          fmt::format("[{}] the result '{}' is required (node '{}')", op.name(), result.name, name));
    }
    if (!want) continue;
    names[i] = output_name(name, results, i);
    if (find(names[i]) != none) {
      throw GraphError(
          fmt::format("[{}] the value name '{}' is taken (node '{}')", op.name(), names[i], name));
    }
  }

  const auto id = static_cast<NodeId>(nodes_.size());
  Node node{name, &op, std::move(attributes), {inputs.begin(), inputs.end()}, {}};
  for (std::size_t i = 0; i < count; ++i) {
    if (names[i].empty()) {
      node.outputs.push_back(none);
      continue;
    }
    const ValueId output = add_value(names[i], types[i], Role::intermediate);
    values_.back().producer = id;
    values_.back().opaque = result_at(results, i).opaque;
    node.outputs.push_back(output);
  }
  nodes_.push_back(std::move(node));
  node_ids_.emplace(std::move(name), id);
  return id;
}

void Graph::add_output(std::string name, ValueId value) {
  if (has_output(name))
    throw GraphError(fmt::format("graph '{}': the output name '{}' is taken", name_, name));
  if (value < 0 || static_cast<std::size_t>(value) >= values_.size()) {
    throw GraphError(fmt::format("graph '{}': the output '{}' is not a value of the graph", name_, name));
  }
  if (this->value(value).opaque) {
    throw GraphError(fmt::format("graph '{}': the output '{}' is opaque and cannot be read", name_, name));
  }
  outputs_.push_back({std::move(name), value});
}

void Graph::add_update(ValueId target, ValueId source) {
  const Value& to = value(target);
  const Value& from = value(source);
  if (!is_persistent(to.role)) {
    throw GraphError(
        fmt::format("graph '{}': '{}' is {} and cannot be updated", name_, to.name, to_string(to.role)));
  }
  if (to.type != from.type || from.opaque) {
    throw GraphError(fmt::format("graph '{}': '{}' {} cannot be updated from '{}' {}", name_, to.name,
                                 to_string(to.type), from.name, to_string(from.type)));
  }
  for (const Update& update : updates_) {
    if (update.target == target)
      throw GraphError(fmt::format("graph '{}': '{}' is updated twice", name_, to.name));
  }
  updates_.push_back({target, source});
}

void Graph::remove_output(std::string_view name) {
  std::erase_if(outputs_, [&](const Output& output) { return output.name == name; });
}

Graph Graph::pruned() const {
  std::vector<ValueId> roots;
  for (const Output& output : outputs_) roots.push_back(output.value);
  for (const Update& update : updates_) roots.push_back(update.source);
  const std::vector<bool> needed = ancestors(*this, roots);
  const auto is_needed = [&](ValueId id) { return id != none && needed[static_cast<std::size_t>(id)]; };

  GraphCopy copy(*this);
  const auto copy_node = [&](NodeId id) {
    Node kept = node(id);
    if (std::none_of(kept.outputs.begin(), kept.outputs.end(), is_needed)) return;
    const std::vector<Result> results = kept.op->results();
    for (std::size_t i = 0; i < kept.outputs.size(); ++i) {
      if (!is_needed(kept.outputs[i]) && result_at(results, i).optional) kept.outputs[i] = none;
    }
    copy.add_node(kept);
  };
  walk(*this, [&](ValueId id) { copy.add_value(id); }, copy_node);
  copy.add_outputs();
  copy.add_updates();
  return copy.take();
}

std::vector<TensorType> input_types(const Graph& graph, const Node& node) {
  return types_of(graph, node.inputs);
}

std::vector<TensorType> output_types(const Graph& graph, const Node& node) {
  return types_of(graph, node.outputs);
}

}  // namespace assay
