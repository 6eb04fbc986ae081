#include "harness/conductor/check/optimizer_step.hpp"

#include <fmt/format.h>

#include <cmath>

#include "harness/core/error.hpp"

namespace assay {

OptimizerElement optimizer_step(const OptimizerSpec& optimizer, const OptimizerElement& before,
                                double gradient, double learning_rate, std::int64_t step) {
  const double g = gradient + optimizer.weight_decay * before.parameter;
  OptimizerElement after = before;
  if (optimizer.kind == "sgd") {
    const double velocity = optimizer.momentum * before.moments[0] + g;
    if (optimizer.momentum != 0) after.moments[0] = velocity;
    after.parameter -= learning_rate * velocity;
  } else if (optimizer.kind == "rmsprop") {
    after.moments[0] = optimizer.decay * before.moments[0] + (1 - optimizer.decay) * g * g;
    after.parameter -= learning_rate * g / (std::sqrt(after.moments[0]) + optimizer.epsilon);
  } else if (optimizer.kind == "adam" || optimizer.kind == "lazy_adam") {
    const double t = static_cast<double>(step);
    after.moments[0] = optimizer.beta1 * before.moments[0] + (1 - optimizer.beta1) * g;
    after.moments[1] = optimizer.beta2 * before.moments[1] + (1 - optimizer.beta2) * g * g;
    const double m = after.moments[0] / (1 - std::pow(optimizer.beta1, t));
    const double v = after.moments[1] / (1 - std::pow(optimizer.beta2, t));
    after.parameter -= learning_rate * m / (std::sqrt(v) + optimizer.epsilon);
  } else {
    throw GraphError(
        fmt::format("'{}' is no optimizer that the check knows; known are sgd, rmsprop, adam, lazy_adam",
                    optimizer.kind));
  }
  return after;
}

}  // namespace assay
