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
// As an index into a vector with an entry for each value, node or step.
inline std::size_t index(std::int64_t id) { return static_cast<std::size_t>(id); }
inline constexpr std::int32_t none = -1;

// The source of a value's bits, and their lifetime.
enum class Role : std::uint8_t {
  input,      // fed each step: the images
  label,      // fed each step: class indices, i32
  schedule,   // fed each step: f32 (2): learning rate, step count from 1. Read from memory, not a constant
  parameter,  // persistent, trained
  state,      // persistent, not trained: running statistics, optimizer moments
  mask,   // persistent, u8: the elements that a dropout keeps; drawn again in each step unless it is supplied
  cache,  // persistent, written by task decode: the keys and values of the earlier tokens
  position,      // persistent, i32 (1): the place of the next token in the caches; 0 when a prompt begins
  seed,          // fed: i32 (2), a 64-bit number, low half first. Read from memory, not a constant
  intermediate,  // made and consumed within one step
};
// Roles that outlive a step: parameter, state, mask, cache, position.
bool is_persistent(Role role);
// Roles that are filled before a step and dropped after it: input, label, schedule, seed.
bool is_feed(Role role);
std::string_view to_string(Role role);
// Throws GraphError for an unknown name.
Role parse_role(std::string_view name);

struct Value {
  std::string name;  // unique in the graph
  TensorType type;
  Role role = Role::intermediate;
  NodeId producer = none;  // none for feeds and persistent values
  // The backend chooses the size and the layout (a pooling workspace, an LSTM reserve): type.shape is empty
  // and the lowering returns the number of bytes.
  bool opaque = false;
  // The initial content of a persistent value: "zeros", "ones", "glorot_uniform", "he_normal",
  // "uniform_fan_in". Empty for other values. harness/conductor/data/initial_values.hpp defines each.
  std::string initializer;
};

struct Node {
  std::string name;  // unique in the graph
  const Op* op = nullptr;
  Attributes attributes;
  std::vector<ValueId> inputs;   // `none` if an optional operand is absent
  std::vector<ValueId> outputs;  // `none` if an optional result is not needed
};

// After a step the persistent value `target` has the content of `source`. A kernel backend gives both the
// same storage.
struct Update {
  ValueId target = none;
  ValueId source = none;
};

// Nodes are in an order in which they can be executed. Not thread-safe while it is built; const use is
// thread-safe.
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
  // `none` if the graph has no such value or node.
  ValueId find(std::string_view name) const;
  NodeId find_node(std::string_view name) const;
  // Throws GraphError naming the graph if it has no such output.
  ValueId output(std::string_view name) const;
  bool has_output(std::string_view name) const;
  std::vector<ValueId> with_role(Role role) const;

  // Throws GraphError if the name is taken.
  ValueId add_value(std::string name, TensorType type, Role role, std::string initializer = {});
  // Infers and adds the outputs, named `name` or `name.<output>` (`name.<output>.2` in the second group);
  // throws GraphError naming op, node and shapes if the operands do not fit. `wanted[i] == false` leaves out
  // optional output i. Optional operands at the end may be omitted.
  NodeId add_node(const Op& op, std::string name, std::span<const ValueId> inputs, Attributes attributes = {},
                  std::vector<bool> wanted = {});
  void add_output(std::string name, ValueId value);
  void remove_output(std::string_view name);
  void add_update(ValueId target, ValueId source);

  // For passes: a copy without the nodes, optional results and intermediate values that no output and no
  // update needs. Keeps feeds and persistent values.
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

// The types of a node's operands, in order; a default TensorType if an operand is absent.
std::vector<TensorType> input_types(const Graph& graph, const Node& node);
std::vector<TensorType> output_types(const Graph& graph, const Node& node);

}  // namespace assay
