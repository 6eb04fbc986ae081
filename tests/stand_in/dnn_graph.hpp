// Graphs of cuDNN's operations, and how they are computed.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "tests/stand_in/dnn.hpp"

namespace assay::stand_in {

struct GraphTensor {
  std::int64_t uid = 0;
  Shaped shaped;
  std::uint64_t alignment = 1;
  bool is_virtual = false;   // within the graph only
  bool is_by_value = false;  // one number of the host
};

struct GraphStep {
  enum class Kind : std::uint8_t { forward, input_gradient, weight_gradient, pointwise };
  Kind kind = Kind::pointwise;
  // forward: x, weight, y; input_gradient: dy, weight, dx; weight_gradient: x, dy, dweight; pointwise: one or two
  // operands, of a gradient dy and x.
  GraphTensor a, b, result;
  bool has_b = false;
  std::vector<std::int64_t> padding, stride, dilation;  // of a convolution; the padding before the image
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
  double upper_clip = 0, softplus_beta = 1;
};

struct Engine {
  std::int64_t index = 0;
  std::vector<cudnnBackendNumericalNote_t> numerical = {};
  std::vector<cudnnBackendBehaviorNote_t> behavior = {};
  std::int64_t workspace_bytes = 0;
  double microseconds = 10;
  bool can_be_built = true;
  bool is_wrong = false;

  bool has(cudnnBackendNumericalNote_t note) const;
  bool is_compiled_at_run_time() const;
};

struct Plan;
struct DnnGraph {
  std::vector<GraphStep> steps;
  mutable std::weak_ptr<const Plan> built_last;
};
struct Plan {
  std::shared_ptr<const DnnGraph> graph;
  Engine engine;
};

// What the heuristic names, the best first; empty if there is none.
std::vector<Engine> engines_of(const DnnGraph& graph, cudnnBackendHeurMode_t mode);

// The operands of a run: addresses by uid, and numbers that are passed by value.
struct Pack {
  std::map<std::int64_t, void*> addresses;
  std::map<std::int64_t, double> numbers;
  void* workspace = nullptr;
};
void compute(const Plan& plan, const Pack& pack);

}  // namespace assay::stand_in
