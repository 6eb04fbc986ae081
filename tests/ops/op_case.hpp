// The conformance suite: one row per behaviour of an op, and no backend. A row serves correctness against the
// reference in fp64, the gradient against finite differences, the support table and the benchmark.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "harness/graph/attributes.hpp"
#include "harness/graph/graph.hpp"
#include "harness/graph/passes/precision.hpp"

namespace assay::ops {

// The contents of an operand. Never mostly zeros; integers if sums of products are then exact in every
// precision.
enum class Fill : std::uint8_t {
  integers,  // -2 to 2, one in eight is 0
  ramp,      // no two equal within a row-major run of 64, none near 0: no ties for a maximum, no kinks for a
             // difference
  small,     // -0.375 to 0.375 in eighths, none 0: weights through which nothing saturates
  positive,  // 0.25 to 1.75
  wide,      // the ramp from -94.5 to 94.5: where an exponential over- or underflows
  zero,
  not_a_number,  // one element in three, from the first
  top,           // 2, the largest that integers has
  far,           // 512 to 524 in steps of 4: where the mean takes most digits
  hiding,  // the mask of an attention: every third row is -inf, and one in four of the others; else the ramp
  tokens,  // 0 to 3
  same,    // operand 0 itself; the shape is not given
  attended,           // y and logsumexp, as attention saves them for operands 0 to 3; the shape is not given
  labels_or_ignored,  // labels, but one in four is -100
  labels,             // class indices below the last dimension of operand 0
  softmax,            // rows that sum to 1
  argmax,             // what max_pool saves for an image of this shape
  above,              // what batch_norm saves where an image of this shape is above 0
  indices,   // rows of a table: attribute rows, or else of operand 1; one in nine is -1, some come twice
  touched,   // every other row of a table of attribute rows, then -1
  reserve,   // what lstm saves for operands 0 to 2 and a bias of this shape
  schedule,  // learning rate 0.01, step 3
  kept,      // a dropout mask, u8: one in four is 0
  no_seed,   // a seed of 0: masks are supplied
  bucket,    // what all_reduce_start makes of the other operands; the shape is not given
  absent,
};

struct OpCase {
  struct Operand {
    Fill fill = Fill::integers;
    Shape shape = {};
  };
  std::string op;
  std::string name;
  std::vector<Operand> operands;
  Attributes attributes = {};
  // Largest error over the largest magnitude of the result, in units of the result type's epsilon. 0: every
  // bit. A NaN of the reference must be a NaN of the kernel.
  double tolerance = 0;
  bool differentiable = false;  // for all floating operands with respect to result 0

  std::string id() const { return op + "_" + name; }
};

// For GoogleTest.
inline void PrintTo(const OpCase& row, std::ostream* stream) { *stream << row.id(); }

std::span<const OpCase> all_cases();

// The graph of only the node, with fed operands, with the types that the policy gives to each; every result
// is an output, "result0", "result1", …
Graph graph_of(const OpCase& row, const Precision& precision);

// The fed values, by the names of graph_of(); if the fill has integers, numbers that bf16 can hold.
std::vector<double> values_of(const OpCase& row, std::size_t operand);

}  // namespace assay::ops
