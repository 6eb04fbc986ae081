// The data of `assay inspect`: a program's layers, parameters, FLOPs, its memory under each plan, and the
// lower bound of a plan: the bytes that are alive at once, value by value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/graph/memory_plan/memory_plan.hpp"
#include "harness/graph/passes/training_step.hpp"

namespace assay {

struct LiveValue {
  ValueId value = none;
  std::int64_t bytes = 0;     // of its storage, in units of the alignment
  NodeId last_reader = none;  // the reader that keeps it alive; none: it is kept to the end of the step
};

// The moment of a step with the maximum of bytes alive under the in-place rules.
struct Peak {
  NodeId node = none;  // the node that runs then
  std::int64_t bytes = 0;
  std::vector<LiveValue> live;  // the largest first; equal ones in the order in which they were made
};

// `bytes` of the peak is MemoryPlan::lower_bound of the co-share plan without scratch.
Peak peak_of(const Graph& graph, const ByteSize& bytes);

struct NodeSummary {
  std::string name;
  std::string op;
  std::string type;             // of its first result: "f32 (200, 6, 24, 24)"
  std::int64_t parameters = 0;  // elements of the parameters that it reads
  double flops = 0;
  double bytes = 0;  // compulsory traffic
};

// Sizes of the arena in bytes.
struct ArenaSummary {
  std::int64_t naive = 0;
  std::int64_t in_place = 0;
  std::int64_t co_share_only = 0;
  std::int64_t co_share = 0;     // with in_place
  std::int64_t lower_bound = 0;  // maximum of bytes alive at once with in_place
};

// The plans of a step's graph with plain layouts.
ArenaSummary plan_sizes(const Graph& step);

struct StepSummary {
  std::vector<NodeSummary> nodes;  // in the order of execution
  double flops = 0;
  double bytes = 0;
  std::int64_t persistent_bytes = 0;  // parameters, moments, running statistics, dropout masks
  ArenaSummary arena;
};

struct ProgramSummary {
  std::string workload;
  PrecisionKind precision = PrecisionKind::fp32;
  std::int64_t batch = 0;
  std::int64_t parameters = 0;  // elements
  double forward_flops = 0;     // of the training step's forward pass, with the loss
  double backward_flops = 0;    // gradients
  double optimizer_flops = 0;
  std::optional<StepSummary>
      training;  // unfused: forward, loss, backward, optimizer; nothing if nothing can be trained
  StepSummary inference;
};

// Without a training step, forward_flops are those of inference.
ProgramSummary summarise(const Program& program, const Precision& precision);

}  // namespace assay
