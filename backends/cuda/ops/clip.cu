// The norm of all gradients together, and their clipping by it. No sum uses atomics: each tensor is summed in
// parts, and then one team adds the parts of all tensors.
#include "backends/cuda/kernels/long_sum.hpp"
#include "backends/cuda/kernels/tensor_table.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

struct ClippedTensor {
  const float* x;
  std::int64_t elements, first;  // first: part, in the order of all tensors
};

struct SumSquares {
  float* sums;  // of each part
  std::int64_t parts = 0;
  int count = 0;
  ClippedTensor tensors[max_tensors] = {};
  ASSAY_TEAM void operator()(const Team& team, std::int64_t part) const {
    const ClippedTensor& tensor = tensor_of(tensors, count, part);
    const auto [first, end] = part_of(tensor, part);
    const float* const x = tensor.x;
    const float sum = team.sum(long_sum(team, first, end, [&](std::int64_t i) { return x[i] * x[i]; }));
    if (team.rank() == 0) sums[part] = sum;
  }
};

struct RootOfParts {
  const float* sums;
  float* norm;
  std::int64_t count;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t) const {
    const float sum = team.sum(long_sum(team, 0, count, [&](std::int64_t i) { return sums[i]; }));
    if (team.rank() == 0) *norm = sqrtf(sum);
  }
};

Lowered lower_norm(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  std::vector<std::int64_t> elements;
  std::int64_t parts = 0;
  for (std::size_t i = 0; i < request.node.inputs.size(); ++i) {
    lowered.inputs[i] = request.keep(i);
    elements.push_back(request.inputs[i].elements());
    parts += ceil_div(elements.back(), part_elements);
  }
  lowered.scratch_bytes = parts * static_cast<std::int64_t>(sizeof(float));
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [=](const Operands& at) {
        SumSquares all{at.scratch_at<float>(0)};
        for (std::size_t i = 0; i < elements.size(); ++i) {
          all.tensors[all.count++] = {at.in<float>(i), elements[i], all.parts};
          all.parts += ceil_div(elements[i], part_elements);
          if (all.count < max_tensors && i + 1 < elements.size()) continue;
          for_each_row(stream, all.parts, part_elements, all);
          all.sums += all.parts;
          all.parts = all.count = 0;
        }
        for_each_row(stream, 1, parts, RootOfParts{at.scratch_at<float>(0), at.out<float>(0), parts});
      },
      "own:reduction");
  return lowered;
}

struct Clip {
  const float *gradient, *norm;
  float* clipped;
  float limit;
  ASSAY_HD void operator()(std::int64_t i) const {
    // A NaN is not below 1, but it must reach the result.
    const float share = limit / (*norm + 1e-6F);
    clipped[i] = gradient[i] * (share >= 1.0F ? 1.0F : share);
  }
};

Lowered lower_clip(const Request& request) {
  const Layout layout = request.follow({0});
  Lowered lowered = draft(request, layout);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [=, n = request.inputs[0].elements(), limit = request.number("limit")](const Operands& at) {
        for_each(stream, n, Clip{at.in<float>(0), at.in<float>(1), at.out<float>(0), limit});
      },
      "own:pointwise");
  return lowered;
}

}  // namespace

std::span<const OpEntry> clip_ops() {
  static constexpr std::array entries{OpEntry{"global_norm", lower_norm}, OpEntry{"clip", lower_clip}};
  return entries;
}

}  // namespace assay::cuda
