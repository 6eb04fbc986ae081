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
  std::int64_t fallback = 0;   // where the size does not name it; 0: it takes the value of `like`
  std::string_view like = {};  // an earlier dimension
  std::int64_t least = 1;
};

struct OpWorkload {
  std::string name;         // "op/relu"
  std::string description;  // one line: what is computed, of which shapes
  std::vector<Dimension> dimensions;
  std::vector<std::string> sizes;  // the sweep, from a few elements to memory-bound
  std::string default_size;        // one of `sizes`
  bool differentiable = true;      // task train: forward and backward in one step
  // Adds the op to the builder (in training or inference mode) and names its results with add_output.
  std::function<void(class OperandBuilder& operands, const Dimensions& dimensions)> build;

  // "m1760n16k1760" or a lone number for the first dimension. Throws GraphError naming what is wrong.
  Dimensions parse(std::string_view size) const;
  // The one way to write a size: all that differs from its fallback, in order.
  std::string canonical(std::string_view size) const;
  // Throws GraphError where the op refuses these shapes.
  Program program(std::string_view size) const;
};

// Writes the one node of an op program down.
class OperandBuilder {
 public:
  // `differentiated`: each result gets the gradient that comes from behind.
  OperandBuilder(Graph& graph, bool training, bool differentiated)
      : graph_(graph), builder_(graph, training), differentiated_(differentiated) {}

  bool training() const { return builder_.training(); }
  GraphBuilder& graph() { return builder_; }
  // An operand of the op, filled as harness/conductor/data/initial_values.hpp says: "signal", "weight", "positive",
  // "below:N", "number".
  ValueId input(std::string name, Shape shape, std::string fill, DType dtype = DType::f32);
  // Running statistics and the like: kept between steps.
  ValueId state(std::string name, Shape shape, std::string initializer);
  // What dropout keeps of a tensor of that shape: drawn in each step, supplied in the check.
  ValueId mask(std::string name, Shape shape);
  // A result by name, with the gradient that comes from behind as an input "d<name>".
  void result(const std::string& name, ValueId value);

  const std::map<std::string, std::string>& cotangents() const { return cotangents_; }

 private:
  Graph& graph_;
  GraphBuilder builder_;
  bool differentiated_;
  std::map<std::string, std::string> cotangents_;
};

// In the order of op_registry.cpp; alive for the whole program.
std::span<const OpWorkload> all_op_workloads();
// Whether a workload of that name is a single op: "op/…".
bool is_op_workload(std::string_view name);
// Throws GraphError with the nearest known name.
const OpWorkload& find_op_workload(std::string_view name);

}  // namespace assay
