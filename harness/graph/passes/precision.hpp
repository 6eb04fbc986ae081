// Named precision policies, and the pass that adds one to a graph as casts.
#pragma once

#include "harness/core/domain.hpp"
#include "harness/graph/graph.hpp"

namespace assay {

// storage: activations and their gradients between ops, and the operands of matrix ops. Parameters, moments,
// statistics, loss and accumulation use `master`.
struct Precision {
  PrecisionKind kind = PrecisionKind::fp32;
  DType storage = DType::f32;
  DType master = DType::f32;
  bool tf32 = false;  // matrix ops may round their operands to 10 bits of mantissa

  // Whether no operand is rounded to fewer bits than a sum has.
  bool is_uniform() const { return storage == master && !tf32; }
};

Precision precision_of(PrecisionKind kind);

// Inserts "cast" nodes so that each op gets the types of the policy.
Graph apply_precision(const Graph& graph, const Precision& precision);

}  // namespace assay
