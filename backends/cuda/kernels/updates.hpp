// The updates of one element, with the formulas of docs/reference/protocol.md, "Optimizers".
#pragma once

#include "backends/cuda/kernels/portable.hpp"
#include "harness/graph/attributes.hpp"

namespace assay::cuda {

// One element of a parameter with the values that the update reads and writes.
struct UpdatedElement {
  float parameter, gradient;
  float first, second;  // moments: adam m and v, sgd the velocity, rmsprop the mean square
};

struct SgdRule {
  explicit SgdRule(const Attributes& a)
      : momentum(static_cast<float>(a.number("momentum"))),
        weight_decay(static_cast<float>(a.number("weight_decay"))) {}
  ASSAY_HD SgdRule at(float learning_rate, float) const {
    SgdRule now = *this;
    now.rate = learning_rate;
    return now;
  }
  ASSAY_HD void update(UpdatedElement& e) const {
    e.first = momentum * e.first + e.gradient + weight_decay * e.parameter;
    e.parameter -= rate * e.first;
  }
  float momentum, weight_decay, rate = 0;
};

struct RmspropRule {
  explicit RmspropRule(const Attributes& a)
      : keep(static_cast<float>(a.number("decay"))),
        take(static_cast<float>(1 - a.number("decay"))),
        epsilon(static_cast<float>(a.number("epsilon"))),
        weight_decay(static_cast<float>(a.number("weight_decay"))) {}
  ASSAY_HD RmspropRule at(float learning_rate, float) const {
    RmspropRule now = *this;
    now.rate = learning_rate;
    return now;
  }
  ASSAY_HD void update(UpdatedElement& e) const {
    const float gradient = e.gradient + weight_decay * e.parameter;
    e.first = keep * e.first + take * gradient * gradient;
    e.parameter -= rate * gradient / (sqrtf(e.first) + epsilon);
  }
  float keep, take, epsilon, weight_decay, rate = 0;
};

struct AdamRule {
  explicit AdamRule(const Attributes& a)
      : keep1(static_cast<float>(a.number("beta1"))),
        keep2(static_cast<float>(a.number("beta2"))),
        take1(static_cast<float>(1 - a.number("beta1"))),
        take2(static_cast<float>(1 - a.number("beta2"))),
        log1(static_cast<float>(std::log(a.number("beta1")))),
        log2(static_cast<float>(std::log(a.number("beta2")))),
        epsilon(static_cast<float>(a.number("epsilon"))),
        weight_decay(static_cast<float>(a.number("weight_decay"))),
        decoupled(a.get_or("decoupled", false)) {}
  // 1 - beta^t as -(e^(t log beta) - 1): in floats, and accurate for beta near 1.
  ASSAY_HD AdamRule at(float learning_rate, float step) const {
    AdamRule now = *this;
    now.rate = learning_rate;
    now.correction1 = -expm1f(step * log1);
    now.correction2 = -expm1f(step * log2);
    return now;
  }
  ASSAY_HD void update(UpdatedElement& e) const {
    const float decay = weight_decay * e.parameter, gradient = e.gradient + (decoupled ? 0.0F : decay);
    e.first = keep1 * e.first + take1 * gradient;
    e.second = keep2 * e.second + take2 * gradient * gradient;
    e.parameter -= rate * (e.first / correction1) / (sqrtf(e.second / correction2) + epsilon);
    if (decoupled) e.parameter -= rate * decay;
  }
  float keep1, keep2, take1, take2, log1, log2, epsilon, weight_decay;
  bool decoupled;
  float rate = 0, correction1 = 1, correction2 = 1;
};

}  // namespace assay::cuda
