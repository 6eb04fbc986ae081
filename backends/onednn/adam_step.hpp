// The constants of a step of Adam, from the attributes of its node and the schedule.
#pragma once

#include <cmath>

#include "backends/onednn/loops/loops.hpp"
#include "harness/graph/attributes.hpp"

namespace assay::onednn {

struct AdamRule {
  explicit AdamRule(const Attributes& a)
      : beta1(a.number("beta1")),
        beta2(a.number("beta2")),
        decoupled(a.get_or("decoupled", false) ? a.number("weight_decay") : 0) {
    step = {static_cast<float>(beta1),
            static_cast<float>(beta2),
            static_cast<float>(1.0 - beta1),
            static_cast<float>(1.0 - beta2),
            static_cast<float>(a.number("epsilon")),
            static_cast<float>(decoupled == 0 ? a.number("weight_decay") : 0),
            0,
            0,
            0};
  }
  void begin_step(double learning_rate, double count) {
    step.step_size = static_cast<float>(learning_rate / (1.0 - std::pow(beta1, count)));
    step.inverse_root = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(beta2, count)));
    step.shrink = static_cast<float>(learning_rate * decoupled);
  }
  double beta1, beta2, decoupled;  // decoupled: the weight decay, if it is
  AdamStep step{};
};

}  // namespace assay::onednn
