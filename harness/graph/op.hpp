// The contract of an operator: a text about its result, and its shapes. It does not depend on backends and
// has no kernel.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.hpp"
#include "harness/core/tensor.hpp"
#include "harness/graph/attributes.hpp"
#include "harness/graph/graph.hpp"

namespace assay {

class GraphBuilder;

// The type of a precision policy that an operand has.
enum class Kind : std::uint8_t {
  storage,  // activations, their gradients, operands of matrix ops
  master,   // parameters, statistics, loss, accumulated gradients, the schedule
  any,      // the type that the producer made; all such operands of a node agree
  index,    // i32, or opaque: untouched by the policy
};

struct Operand {
  std::string name;  // "x", "weight", "bias"
  bool optional = false;
  Kind kind = Kind::storage;
  bool fused = false;  // only fusion adds it, so graph.json never has it. The last operands
};

struct Result {
  std::string name;  // "y"; the first one is the node's own name in the graph
  bool optional = false;
  bool saved = false;   // exists only for the gradient: batch statistics, argmax, a workspace
  bool opaque = false;  // sized by the backend at lowering
  bool fused = false;   // exists only if it is asked for, which fusion does
};

// Output `output` may overwrite input `input`: the kernel reads every element before it writes it.
struct InPlace {
  int output = 0;
  int input = 0;
};

struct Cost {
  double flops = 0;  // a multiply-add counts two
  double bytes = 0;  // compulsory traffic: each operand read once, each result written once
};

// Where the gradient of an op jumps. Within rounding of such a place two correct backends may have gradients that differ
// by more than rounding.
enum class Kink : std::uint8_t {
  nowhere,
  at_zero,  // where an element of operand 0 is zero; operand 0 is positive where result 0 is
  choice,   // where the op chooses another element, or another formula: choices()
};

// One object per op, immutable, alive for the whole program; registered in ops/registry.cpp.
class Op {
 public:
  virtual ~Op() = default;

  virtual std::string_view name() const = 0;  // "convolution"
  virtual std::string_view contract()
      const = 0;  // a paragraph: formula, padding, divisor, order, dtype rules
  virtual std::vector<Operand> operands() const = 0;
  virtual std::vector<Result> results() const = 0;
  // Names of the known attributes, in the order of the contract; any other is rejected.
  virtual std::vector<std::string> attributes() const { return {}; }
  // The last `repeats()` operands are one group; a node may have one or more groups, and has results() once
  // for each group (an optimizer over many tensors). 0: the node has exactly operands() and results().
  virtual int repeats() const { return 0; }
  // False: all groups share one set of results (concat).
  virtual bool results_repeat() const { return true; }
  // One type for each result (opaque ones are default; fewer if the attributes exclude the last ones).
  // `inputs` has one entry for each operand; `present[i]` is true if it exists. Throws GraphError:
  // "[convolution] got ...: ...".
  virtual std::vector<TensorType> infer(const Attributes& attributes, std::span<const TensorType> inputs,
                                        const std::vector<bool>& present) const = 0;
  // Floating-point operations; 0 for data movement.
  virtual double flops(const Attributes& attributes, std::span<const TensorType> inputs,
                       std::span<const TensorType> outputs) const = 0;
  virtual std::vector<InPlace> in_place() const { return {}; }
  // Result 0 has the bits of operand 0 in the same order (flatten): no data need to move.
  virtual bool view() const { return false; }
  virtual Kink kink(const Attributes&) const { return Kink::nowhere; }
  // With Kink::choice: what the op chooses, in numbers that can be compared with those for another operand 0 of the same
  // shape. x: the elements of operand 0.
  virtual std::vector<std::int32_t> choices(const Attributes&, const Shape&, std::span<const double>) const {
    return {};
  }
  // Adds the nodes that turn the gradients of the outputs (`none` if an output is not used) into gradients of
  // the inputs (`none` if an input has none). Throws GraphError if the op has no gradient.
  virtual std::vector<ValueId> gradient(GraphBuilder& builder, const Node& node,
                                        std::span<const ValueId> output_gradients) const;
};

// Bytes and FLOPs of a node of a graph.
Cost cost(const Graph& graph, const Node& node);

// The number of groups of a node with `inputs` operands; 1 for an op that does not repeat. Throws GraphError
// if the count fits no number of groups.
int group_count(const Op& op, std::size_t inputs);
// The number of results of a node with `inputs` operands, including absent ones. Throws like group_count().
std::size_t result_count(const Op& op, std::size_t inputs);
// The description of operand i of a node, from operands(), or of result i, from results(), across groups.
const Operand& operand_at(const Op& op, const std::vector<Operand>& operands, std::size_t i);
const Result& result_at(const std::vector<Result>& results, std::size_t i);
// in_place() for all groups of a node. Some pairs may differ in size (add with a smaller b).
std::vector<InPlace> in_place(const Node& node);
// Removes the pairs whose result has another number of elements than the operand: it would overwrite elements
// that are still read.
void remove_unequal(std::vector<InPlace>& pairs, const Graph& graph, const Node& node);

// Every op of this build, in the order of ops/registry.cpp.
std::span<const Op* const> all_ops();
// Throws GraphError naming the nearest known op.
const Op& find_op(std::string_view name);

}  // namespace assay
