// The intermediate representation: a static, single-assignment, topologically ordered data-flow graph with
// concrete shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/tensor.hpp"
#include "harness/graph/attributes.hpp"

namespace assay {

class Op;

using ValueId = std::int32_t;  // index into Graph::values()
using NodeId = std::int32_t;   // index into Graph::nodes()
// Into what is kept by value, node or step.
inline std::size_t index(std::int64_t id) { return static_cast<std::size_t>(id); }
inline constexpr std::int32_t none = -1;

// Where a value's bits come from and how long they live.
enum class Role : std::uint8_t {
  input,         // fed each step: the images
  label,         // fed each step: class indices, i32
  schedule,      // fed each step: f32 (2): learning rate, step count from 1. Read from memory, never baked in
  parameter,     // persistent, trained
  state,         // persistent, not trained: running statistics, optimizer moments
  mask,          // persistent, u8: which elements a dropout keeps; drawn anew each step unless it is supplied
  seed,          // fed: i32 (2), a 64-bit number, low half first. Read from memory, never baked in
  intermediate,  // made and consumed within one step
};
// What outlives a step: parameter, state, mask.
bool is_persistent(Role role);
// What is there when a step begins and gone after it: input, label, schedule, seed.
bool is_feed(Role role);
std::string_view to_string(Role role);
// Throws GraphError for a name that is none.
Role parse_role(std::string_view name);

struct Value {
  std::string name;  // unique in the graph
  TensorType type;
  Role role = Role::intermediate;
  NodeId producer = none;  // none for what is fed or persistent
  // The size and layout are the backend's own business (a pooling workspace, an LSTM reserve): type.shape is
  // empty and the lowering says how many bytes it takes.
  bool opaque = false;
  // How a persistent value starts: "zeros", "ones", "glorot_uniform", "he_normal", "uniform_fan_in". Empty
  // for the rest. harness/conductor/data/initial_values.hpp says what each means.
  std::string initializer;
};

struct Node {
  std::string name;  // unique in the graph
  const Op* op = nullptr;
  Attributes attributes;
  std::vector<ValueId> inputs;   // `none` where an optional operand is absent
  std::vector<ValueId> outputs;  // `none` where an optional result is not wanted
};

// After a step the persistent value `target` holds what `source` held. A kernel backend gives both one
// storage.
struct Update {
  ValueId target = none;
  ValueId source = none;
};

// Nodes stand in an order in which they can be executed. Not thread-safe while being built; const is.
class Graph {
 public:
  explicit Graph(std::string name = {}) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  std::span<const Value> values() const { return values_; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Update> updates() const { return updates_; }
  // Named results that outlive the step: "logits", "loss", "gradient/conv1.weight".
  struct Output {
    std::string name;
    ValueId value = none;
  };
  std::span<const Output> outputs() const { return outputs_; }

  const Value& value(ValueId id) const { return values_.at(static_cast<std::size_t>(id)); }
  const Node& node(NodeId id) const { return nodes_.at(static_cast<std::size_t>(id)); }
  // `none` when there is no such value or node.
  ValueId find(std::string_view name) const;
  NodeId find_node(std::string_view name) const;
  // Throws GraphError naming the graph when there is no such output.
  ValueId output(std::string_view name) const;
  bool has_output(std::string_view name) const;
  std::vector<ValueId> with_role(Role role) const;

  // Throws GraphError when the name is taken.
  ValueId add_value(std::string name, TensorType type, Role role, std::string initializer = {});
  // Infers and adds the outputs, named `name` or `name.<output>` (`name.<output>.2` in the second group);
  // throws GraphError naming op, node and shapes when the operands do not fit. `wanted[i] == false` leaves
  // optional output i out. Optional operands at the end need not be named.
  NodeId add_node(const Op& op, std::string name, std::span<const ValueId> inputs, Attributes attributes = {},
                  std::vector<bool> wanted = {});
  void add_output(std::string name, ValueId value);
  void remove_output(std::string_view name);
  void add_update(ValueId target, ValueId source);

  // For passes: a copy without the nodes, optional results and intermediate values that no output and no
  // update needs. What is fed or persistent stays.
  Graph pruned() const;

 private:
  std::string name_;
  std::map<std::string, ValueId, std::less<>> value_ids_;
  std::map<std::string, NodeId, std::less<>> node_ids_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Update> updates_;
  std::vector<Output> outputs_;
};

// The types of a node's operands, in order; a default TensorType where an operand is absent.
std::vector<TensorType> input_types(const Graph& graph, const Node& node);
std::vector<TensorType> output_types(const Graph& graph, const Node& node);

}  // namespace assay
