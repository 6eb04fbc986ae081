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
  enum class Kind : std::uint8_t {
    forward,
    input_gradient,
    weight_gradient,
    pointwise,
    norm,
    norm_gradient,
    product,
    reduction,
    transposition,
    attention
  };
  Kind kind = Kind::pointwise;
  // forward: x, weight, y; input_gradient: dy, weight, dx; weight_gradient: x, dy, dweight; pointwise: one to three
  // operands, of a gradient dy and x, of a choice the one where the third is set, and the other; norm: x, scale, bias and epsilon, and y, mean and inverse_std; norm_gradient: dy, x,
  // scale, mean and inverse_std, and dx, dscale and dbias; product: stacks (N, H, m, k) and (N, G, k, n), where G divides H;
  // reduction and transposition: x and y; attention: q, k, v and scale, and y and, if it is there, logsumexp.
  std::vector<GraphTensor> operands = {}, results = {};
  std::vector<std::int64_t> padding = {}, stride = {},
                            dilation = {};  // of a convolution; the padding before the image
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
  std::int64_t axis = -1;   // of a pointwise index
  bool is_maximum = false;  // a reduction that is no sum
  double upper_clip = 0, softplus_beta = 1;

  const GraphTensor& a() const { return operands[0]; }
  const GraphTensor& b() const { return operands[1]; }
  const GraphTensor& result() const { return results[0]; }
  template <typename Body>
  void for_each_tensor(const Body& body) const {
    for (const GraphTensor& tensor : operands) body(tensor);
    for (const GraphTensor& tensor : results) body(tensor);
  }
};

struct Engine {
  std::int64_t index = 0;
  std::vector<cudnnBackendNumericalNote_t> numerical = {};
  std::vector<cudnnBackendBehaviorNote_t> behavior = {};
  std::int64_t workspace_bytes = 0;
  double microseconds = 10;  // more than a launch takes
  bool can_be_built = true;
  // It rounds f32 to bf16, a mask of x > 0 is one of x >= 0, and scores are an eighth too large.
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

// Whether it is an attention, whose intermediate results are partly in the caller's workspace, before that of the engine.
bool has_attention(const DnnGraph& graph);

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
