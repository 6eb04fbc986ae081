// SGD, RMSprop and Adam over all tensors of a node in one kernel; Adam on the rows that a sparse gradient
// touches. Learning rate and step count are read from device memory.
#include <algorithm>

#include "backends/cuda/kernels/tensor_table.hpp"
#include "backends/cuda/kernels/updates.hpp"
#include "backends/cuda/optimizer_groups.hpp"

namespace assay::cuda {
namespace {

// A thread's share: a vector of neighbours, so that one search of the table serves all of them.
constexpr std::int64_t update_share = Vector<float>::size;

struct UpdatedTensor {
  GroupOperands group;
  bool aligned;
  std::int64_t first = 0;  // share, in the order of all tensors
};

template <typename Rule>
struct UpdateAll {
  Rule rule;
  const float* schedule;
  TensorTable<UpdatedTensor> tensors = {};
  ASSAY_HD void operator()(std::int64_t i) const {
    const UpdatedTensor& t = tensors.at(i);
    const Rule now = rule.at(schedule[0], schedule[1]);
    const std::int64_t begin = (i - t.first) * update_share,
                       end = smaller(begin + update_share, t.group.elements);
    if (t.aligned && end - begin == update_share) return t.group.update_vector(now, begin);
    for (std::int64_t e = begin; e < end; ++e) t.group.update(now, e);
  }
};

template <typename Rule>
Lowered lower_update(const Request& request) {
  const OptimizerGroups groups(request);
  Lowered lowered = groups.draft(request);
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [stream, groups, rule = Rule(request.node.attributes)](const Operands& at) {
        UpdateAll<Rule> all{rule, at.in<float>(0)};
        const auto launch = [&] { for_each(stream, all.tensors.shares, all); };
        for (std::size_t g = 0; g < groups.count(); ++g) {
          const GroupOperands group = groups.at(at, g);
          all.tensors.add({group, group.is_aligned()}, ceil_div(group.elements, update_share), launch);
        }
        launch();
      },
      "own:multi_tensor");
  return lowered;
}

struct CopyElements {
  const float* from;
  float* to;
  ASSAY_HD void operator()(std::int64_t i) const { to[i] = from[i]; }
};

struct UpdateRows {
  AdamRule rule;
  const float *schedule, *values;
  const std::int32_t* touched;
  float *parameter, *m, *v;
  std::int64_t rows, width;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t row = touched[i / width];
    if (row < 0 || row >= rows) return;
    const std::int64_t at = row * width + i % width;
    UpdatedElement element{parameter[at], values[i], m[at], v[at]};
    rule.at(schedule[0], schedule[1]).update(element);
    parameter[at] = element.parameter;
    m[at] = element.first;
    v[at] = element.second;
  }
};

Lowered lower_lazy(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  const std::int64_t rows = request.in(1)[0], kept = request.in(2)[0], width = request.in(2)[1];
  lowered.kernel = make_kernel(
      [=, rule = AdamRule(request.node.attributes)](const Operands& at) {
        // In place if the executor could use one storage; else the untouched rows are copied.
        constexpr std::array<std::size_t, 3> old{1, 4, 5};
        for (std::size_t r = 0; r < old.size(); ++r) {
          if (at.in<float>(old[r]) != at.out<float>(r))
            for_each(stream, rows * width, CopyElements{at.in<float>(old[r]), at.out<float>(r)});
        }
        for_each(stream, kept * width,
                 UpdateRows{rule, at.in<float>(0), at.in<float>(2), at.in<std::int32_t>(3), at.out<float>(0),
                            at.out<float>(1), at.out<float>(2), rows, width});
      },
      "own:rows");
  return lowered;
}

}  // namespace

std::span<const OpEntry> optimizer_ops() {
  static constexpr std::array entries{
      OpEntry{"sgd", lower_update<SgdRule>}, OpEntry{"rmsprop", lower_update<RmspropRule>},
      OpEntry{"adam", lower_update<AdamRule>}, OpEntry{"lazy_adam", lower_lazy}};
  return entries;
}

}  // namespace assay::cuda
