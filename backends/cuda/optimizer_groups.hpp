// The operands of an optimizer's node: schedule, then in groups parameter, gradient, moments; and its
// results, in groups parameter, moments.
#pragma once

#include <vector>

#include "backends/cuda/kernels/updates.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {

// Where the tensors of one group lie. Moments that the rule does not have are null.
struct GroupOperands {
  const float *parameter, *gradient, *moments[2];
  float *new_parameter, *new_moments[2];
  std::int64_t elements;

  template <typename Rule>
  ASSAY_HD void update(const Rule& now, std::int64_t i) const {
    Element element{parameter[i], gradient[i], moments[0] == nullptr ? 0 : moments[0][i],
                    moments[1] == nullptr ? 0 : moments[1][i]};
    now.update(element);
    new_parameter[i] = element.parameter;
    if (new_moments[0] != nullptr) new_moments[0][i] = element.first;
    if (new_moments[1] != nullptr) new_moments[1][i] = element.second;
  }
};

class OptimizerGroups {
 public:
  explicit OptimizerGroups(const Request& request);

  std::size_t count() const { return elements_.size(); }
  GroupOperands at(const Operands& operands, std::size_t group) const;
  // Each group in the layout of its parameter, or of its gradient where the parameter has none yet.
  Lowered draft(const Request& request) const;

 private:
  std::size_t operands_, results_;  // of a group
  std::vector<std::int64_t> elements_;
};

}  // namespace assay::cuda
