#include "backends/cuda/optimizer_groups.hpp"

namespace assay::cuda {

OptimizerGroups::OptimizerGroups(const Request& request)
    : operands_(static_cast<std::size_t>(request.node.op->repeats())), results_(operands_ - 1) {
  for (std::size_t first = 1; first < request.node.inputs.size(); first += operands_)
    elements_.push_back(request.inputs[first].elements());
}

GroupOperands OptimizerGroups::at(const Operands& operands, std::size_t group) const {
  const std::size_t in = 1 + group * operands_, out = group * results_;
  GroupOperands places{operands.in<float>(in), operands.in<float>(in + 1), {}, operands.out<float>(out), {},
                       elements_[group]};
  for (std::size_t m = 0; m + 1 < results_; ++m) {
    places.moments[m] = operands.in<float>(in + 2 + m);
    places.new_moments[m] = operands.out<float>(out + 1 + m);
  }
  return places;
}

Lowered OptimizerGroups::draft(const Request& request) const {
  Lowered lowered = cuda::draft(request, Layout::plain);
  for (std::size_t g = 0; g < count(); ++g) {
    const std::size_t first = 1 + g * operands_;
    const Format format = format_of(request.inputs[first], request.follow({first, first + 1}));
    for (std::size_t i = first; i < first + operands_; ++i) {
      if (request.has_input(i)) lowered.inputs[i] = format;
    }
    for (std::size_t r = g * results_; r < (g + 1) * results_; ++r) {
      if (request.has_output(r)) lowered.outputs[r] = format;
    }
  }
  lowered.in_place = in_place(request.node);
  return lowered;
}

}  // namespace assay::cuda
