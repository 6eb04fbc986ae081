// The input of a backend's compiler: the forward graph, its loss and its optimizer. This is graph.json.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/core/domain.hpp"
#include "harness/graph/graph.hpp"

namespace assay {

// Hyper-parameters that do not change during training; the learning rate lr and the step t are in the
// schedule. The normative text is docs/reference/protocol.md, "Optimizers"; this is its summary, for each
// element p of a parameter:
//
//   every kind  g = gradient + decay_of(parameter) p (adamw: g = gradient)
//   sgd         v = momentum v + g;  p -= lr v
//   rmsprop     s = decay s + (1 - decay) g^2;  p -= lr g / (sqrt(s) + epsilon)
//   adam        m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//               p -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
//   adamw       adam without decay in g; p also loses lr decay_of(parameter) p (the p before the step)
//   lazy_adam   a parameter with a row-sparse gradient: adam on the touched rows, the other rows keep
//               parameter and moments; a parameter with a dense gradient: adam
//
// sgd: lr is outside the velocity; no dampening, no Nesterov. adam: Kingma & Ba 2015, algorithm 1. adamw:
// Loshchilov & Hutter 2019, with the decay times the learning rate, as torch.optim.AdamW and optax.adamw. For
// every kind but lazy_adam a row-sparse gradient is expanded to a dense one first, so the result is the same.
// With clip_norm, every gradient is first scaled by min(1, clip_norm / (norm + 1e-6)), where norm is the L2
// norm of all gradients together (torch.nn.utils.clip_grad_norm_).
struct OptimizerSpec {
  std::string kind = "adam";  // "sgd", "rmsprop", "adam", "adamw", "lazy_adam"
  double momentum = 0.9;
  double decay = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double clip_norm = 0;  // 0: gradients are not clipped
  auto operator<=>(const OptimizerSpec&) const = default;

  // weight_decay for kernels (parameters of two dimensions or more), 0 for biases and for the scale and shift
  // of a norm, as with Keras's kernel_regularizer. It is the coupled L2 form, except for adamw. Keras's l2(x)
  // adds x p^2 to the loss, which is a weight_decay of 2 x.
  double decay_of(const Shape& parameter) const { return parameter.size() >= 2 ? weight_decay : 0; }

  // Names of the constants that the kind uses; clip_norm only if it clips.
  std::vector<std::string> constants() const;
  // Names of the moments of each parameter: adam, adamw and lazy_adam {"m", "v"}, sgd {"momentum"} (none at momentum
  // 0), rmsprop {"square"}. The state value is called "<parameter>.<moment>".
  std::vector<std::string> moments() const;
  // Whether a moment is a mean of squared gradients. The update uses its root, which changes in proportion to
  // an error of the gradient.
  static bool is_square(std::string_view moment) { return moment == "v" || moment == "square"; }
  // The decay of that mean.
  double square_decay() const { return kind == "rmsprop" ? decay : beta2; }
};

// Task decode: a network that generates tokens, one at a time. `prefill` computes the first `prompt` tokens of
// a sample at once, and `step` the token at the value of role position. Both have the parameters of the
// network, its input with all tokens of a sample, and the same caches and position, which they update. The
// tokens are data: no logits choose the next one, so that every backend does the same work. Output "logits"
// (N, 1, classes): of the last token that the graph computes.
struct Decoding {
  std::int64_t prompt = 0;
  Graph prefill;
  Graph step;
};

// Nodes of a forward graph, by number, from `begin` to the one before `end`.
struct Segment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const Segment&) const = default;
};

// A network, or a single op.
//
// A network that is only inferred has no `training` and no optimizer, and its outputs have any names. Otherwise
// `training` and `inference` are the same layers with the same parameter names; they differ only in some ops (batch
// norm, dropout). Outputs of `training`: "logits", "loss" (mean over the batch). Output of `inference`: "logits". What
// both graphs have (inputs, parameters, state) is read from `inference`. Inputs and outputs have a row for each sample
// of the batch. Several inputs follow each other in a sample (packed_inputs()).
//
// A single op has no optimizer, no loss and no parameters: every operand is an input, so that all of them can be
// cold. The outputs are the op's results by their names. `training`, absent for an op without gradient, has the
// operands and an input for the gradient of each output, named in `cotangents`. A training step computes the
// results and the gradients of every f32 input that is not a cotangent. All inputs of a graph follow each other in
// one sample, and the batch is that one sample. A dropout also drops in `inference`: that is its forward
// pass.
struct Program {
  std::optional<Graph> training;
  Graph inference;
  std::optional<OptimizerSpec> optimizer = {};
  std::map<std::string, std::string> cotangents = {};  // an output -> the input that holds its gradient
  std::optional<Decoding> decoding = {};               // only for task decode
  // Nodes of `training`, in order, that a training step computes again in its backward pass instead of keeping
  // their results (harness/graph/passes/recompute.hpp).
  std::vector<Segment> segments = {};
  ProgramKind kind = ProgramKind::network;

  bool is_op() const { return kind == ProgramKind::op; }
  // Whether a training step has a loss and updates parameters.
  bool trains(Task task) const { return task == Task::train && !is_op(); }
  // Whether a step of the task drops elements by masks.
  bool draws_masks(Task task) const { return !graph(task).with_role(Role::mask).empty(); }
  const std::string& name() const { return inference.name(); }
  // OptimizerSpec::moments(); none without an optimizer.
  std::vector<std::string> moments() const;
  // Task decode: the tokens of a sample after its prompt; each is one step. 0 without `decoding`.
  std::int64_t generated() const;
  // The forward computation of a step of a task; for task decode, of all tokens of a sample at once. Throws GraphError
  // for task train if the program is only inferred.
  const Graph& graph(Task task) const;
};

// Where an input lies in a sample, in elements.
struct PackedInput {
  std::int64_t offset = 0;
  std::int64_t elements = 0;
};
// By name, in the order of the graph's values. samples: those of a batch; 1 for a single op.
std::map<std::string, PackedInput> packed_inputs(const Graph& graph, std::int64_t samples = 1);
// Whether inputs are stored as floats, one after the other, also those with whole numbers: a single op, and a network
// with several inputs.
bool packs_inputs(const Program& program);
// The elements of all inputs of a batch.
std::int64_t input_elements(const Graph& graph);
// The inputs for which a training step of a single op computes gradients: f32, no cotangents and no masks.
std::vector<ValueId> differentiated_inputs(const Program& program);

// Throws GraphError if the kind is unknown or a hyper-parameter is out of its range.
void check_optimizer(const OptimizerSpec& optimizer);
// Throws GraphError unless the graphs have their outputs and feeds and agree on the persistent values, and what a
// training needs is there or absent as a whole.
void check_program(const Program& program);

// graph.json: the program on disk. write(read(text)) == text; the format is described in docs/reference/protocol.md.
nlohmann::json to_json(const Graph& graph);
nlohmann::json to_json(const Program& program);
nlohmann::json to_json(const OptimizerSpec& optimizer);
// Throw GraphError with the JSON path of the error: unknown op, wrong shape, a cycle, a duplicate name.
Graph graph_from_json(const nlohmann::json& json);
Program program_from_json(const nlohmann::json& json);

}  // namespace assay
