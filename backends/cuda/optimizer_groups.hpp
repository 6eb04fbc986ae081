// The operands of an optimizer's node: schedule, then in groups parameter, gradient, moments; and its
// results, in groups parameter, moments.
#pragma once

#include <vector>

#include "backends/cuda/kernels/updates.hpp"
#include "backends/cuda/kernels/vector.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {

// Where the tensors of one group lie. Moments that the rule does not have are null.
struct GroupOperands {
  const float *parameter, *gradient, *moments[2];
  float *new_parameter, *new_moments[2];
  std::int64_t elements;

  template <typename Rule>
  ASSAY_HD void update(const Rule& now, std::int64_t i) const {
    UpdatedElement element{parameter[i], gradient[i], moments[0] == nullptr ? 0 : moments[0][i],
                           moments[1] == nullptr ? 0 : moments[1][i]};
    now.update(element);
    new_parameter[i] = element.parameter;
    if (new_moments[0] != nullptr) new_moments[0][i] = element.first;
    if (new_moments[1] != nullptr) new_moments[1][i] = element.second;
  }

  bool is_aligned() const {
    return are_aligned(parameter, gradient, moments[0], moments[1], new_parameter, new_moments[0],
                       new_moments[1]);
  }
  // The elements of a vector from i, which is a multiple of its size. Only if is_aligned().
  template <typename Rule>
  ASSAY_HD void update_vector(const Rule& now, std::int64_t i) const {
    using Floats = Vector<float>;
    Floats of_parameter = load(parameter + i);
    const Floats of_gradient = load(gradient + i);
    Floats first{}, second{};
    if (moments[0] != nullptr) first = load(moments[0] + i);
    if (moments[1] != nullptr) second = load(moments[1] + i);
    for (int v = 0; v < Floats::size; ++v) {
      UpdatedElement element{of_parameter.of[v], of_gradient.of[v], first.of[v], second.of[v]};
      now.update(element);
      of_parameter.of[v] = element.parameter;
      first.of[v] = element.first;
      second.of[v] = element.second;
    }
    store(new_parameter + i, of_parameter);
    if (new_moments[0] != nullptr) store(new_moments[0] + i, first);
    if (new_moments[1] != nullptr) store(new_moments[1] + i, second);
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
