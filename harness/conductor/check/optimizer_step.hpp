// The optimizers of harness/graph/program.hpp for one element in fp64: what an update must be, from the state
// before it.
#pragma once

#include <array>
#include <cstdint>

#include "harness/graph/program.hpp"

namespace assay {

// One element of a parameter with its moments, in the order of OptimizerSpec::moments(); unused moments are
// zero.
struct OptimizerElement {
  double parameter = 0;
  std::array<double, 2> moments{};
};

// optimizer.weight_decay is applied as it stands: OptimizerSpec::decay_of() says what it is for a parameter.
// step: 1 for the first. lazy_adam: of a row that is touched. Throws GraphError when the kind of optimizer is
// unknown.
OptimizerElement optimizer_step(const OptimizerSpec& optimizer, const OptimizerElement& before,
                                double gradient, double learning_rate, std::int64_t step);

}  // namespace assay
