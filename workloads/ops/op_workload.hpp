// A single op as a workload: what it computes at a size, and the sizes over which it is swept.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/graph/builder.hpp"
#include "harness/graph/program.hpp"

namespace assay {

// The dimensions of one op at one size.
using Dimensions = std::map<std::string, std::int64_t, std::less<>>;

// One dimension of a size: "m" in "m1760n16k1760".
struct Dimension {
  std::string name;            // letters, unique in the op; the first may be empty ("4096")
  std::int64_t fallback = 0;   // the value if the size does not name it; 0: the value of `like`
  std::string_view like = {};  // an earlier dimension
  std::int64_t least = 1;
};

struct OpWorkload {
  std::string name;         // "op/relu"
  std::string description;  // one line: the formula and the shapes
  std::vector<Dimension> dimensions;
  std::vector<std::string> sizes;  // the sweep, from a few elements to memory-bound
  std::string default_size;        // one of `sizes`
  bool differentiable = true;      // task train: forward and backward in one step
  // Adds the op to the builder (in training or inference mode); add_output names its results.
  std::function<void(class OperandBuilder& operands, const Dimensions& dimensions)> build;

  // "m1760n16k1760", or only a number for the first dimension. Throws GraphError with the error in the size.
  Dimensions parse(std::string_view size) const;
  // The canonical form of a size: all dimensions that differ from their fallback, in order.
  std::string canonical(std::string_view size) const;
  // Throws GraphError if the op refuses these shapes.
  Program program(std::string_view size) const;
};

// Builds the graph of a program with a single op.
class OperandBuilder {
 public:
  // `differentiated`: each result gets an input for its gradient.
  OperandBuilder(Graph& graph, bool training, bool differentiated)
      : graph_(graph), builder_(graph, training), differentiated_(differentiated) {}

  bool training() const { return builder_.training(); }
  GraphBuilder& graph() { return builder_; }
  // An operand of the op. Its values are described in harness/conductor/data/initial_values.hpp: "signal",
  // "weight", "positive", "wide", "below:N", "padding", "fraction".
  ValueId input(std::string name, Shape shape, std::string fill, DType dtype = DType::f32);
  // State such as running statistics, kept between steps.
  ValueId state(std::string name, Shape shape, std::string initializer);
  // A dropout mask for a tensor of that shape: drawn in each step, supplied in the check.
  ValueId mask(std::string name, Shape shape);
  // A named result, with its gradient as an input "d<name>".
  void result(const std::string& name, ValueId value);

  const std::map<std::string, std::string>& cotangents() const { return cotangents_; }

 private:
  Graph& graph_;
  GraphBuilder builder_;
  bool differentiated_;
  std::map<std::string, std::string> cotangents_;
};

// In the order of op_registry.cpp; valid until the program ends.
std::span<const OpWorkload> all_op_workloads();
// Whether a workload of that name is a single op: "op/…".
bool is_op_workload(std::string_view name);
// Throws GraphError with the nearest known name.
const OpWorkload& find_op_workload(std::string_view name);

}  // namespace assay
