// What a backend is given to compile: the forward graph, its loss and its optimizer. This is graph.json.
#pragma once

#include <string>
#include <vector>

#include "harness/graph/graph.hpp"

namespace assay {

// Hyper-parameters that do not change while training; the learning rate is in the schedule.
//   sgd      v = momentum v + g;  p -= lr v                       (lr outside the velocity; no dampening, no
//   Nesterov) rmsprop  s = decay s + (1 - decay) g^2;  p -= lr g / (sqrt(s) + epsilon) adam     m = beta1 m +
//   (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
//            p -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)        (Kingma & Ba 2015,
//            algorithm 1)
//   lazy_adam  adam on the rows that a row-sparse gradient touches, the others keep parameter and moments;
//   adam
//            for what has a dense gradient. t counts the steps of the run.
// weight_decay is the coupled L2 form, g += weight_decay p before the moments (not decoupled as in AdamW;
// lazy_adam: on every touched row), for kernels alone: parameters of two dimensions or more, not biases nor
// the scale and shift of a batch norm, as Keras's kernel_regularizer has it. Keras's l2(x) adds x p^2 to the
// loss: that is a weight_decay of 2 x. A row-sparse gradient is written out for every kind but lazy_adam: the
// result is that of the dense one.
struct OptimizerSpec {
  std::string kind = "adam";  // "sgd", "rmsprop", "adam", "lazy_adam"
  double momentum = 0.9;
  double decay = 0.9;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;

  // What holds for a parameter of that shape: weight_decay or 0.
  double decay_of(const Shape& parameter) const { return parameter.size() >= 2 ? weight_decay : 0; }

  // Names of the moments kept per parameter: adam and lazy_adam {"m", "v"}, sgd {"momentum"} (none at
  // momentum 0), rmsprop
  // {"square"}. The state value is called "<parameter>.<moment>".
  std::vector<std::string> moments() const;
};

// `training` and `inference` are the same network with the same parameter names; they differ where an op does
// (batch norm, dropout). Outputs of `training`: "logits", "loss" (mean over the batch). Of `inference`:
// "logits".
struct Program {
  Graph training;
  Graph inference;
  OptimizerSpec optimizer;
};

// Throws GraphError when the kind is unknown or a hyper-parameter is out of its range.
void check_optimizer(const OptimizerSpec& optimizer);
// Throws GraphError unless both graphs have their outputs and feeds and agree on the persistent values.
void check_program(const Program& program);

}  // namespace assay
