// SGD, RMSprop and Adam over all tensors of a node in one kernel; Adam on the rows that a sparse gradient
// touches. Learning rate and step count are read from device memory.
#include <algorithm>

#include "backends/cuda/kernels/updates.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

// A thread's share: a few neighbours, so that one search of the table serves all of them.
constexpr std::int64_t share = 4;

struct Tensor {
  const float *parameter, *gradient, *moments[2];
  float *new_parameter, *new_moments[2];
  std::int64_t elements;
  std::int64_t first;  // share, in the order of all tensors
};

// A kernel's parameters may take 32 KiB; larger nodes are updated in several launches.
constexpr int max_tensors = 256;

struct Tensors {
  Tensor of[max_tensors];
  int count;
  std::int64_t shares;
};

template <typename Rule>
struct UpdateAll {
  Rule rule;
  const float* schedule;
  Tensors tensors;
  ASSAY_HD void operator()(std::int64_t i) const {
    int low = 0, high = tensors.count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (tensors.of[middle].first <= i) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    const Tensor& t = tensors.of[low];
    const Rule now = rule.at(schedule[0], schedule[1]);
    const std::int64_t begin = (i - t.first) * share;
    for (std::int64_t e = begin; e < smaller(begin + share, t.elements); ++e) {
      Element element{t.parameter[e], t.gradient[e], t.moments[0] == nullptr ? 0 : t.moments[0][e],
                      t.moments[1] == nullptr ? 0 : t.moments[1][e]};
      now.update(element);
      t.new_parameter[e] = element.parameter;
      if (t.new_moments[0] != nullptr) t.new_moments[0][e] = element.first;
      if (t.new_moments[1] != nullptr) t.new_moments[1][e] = element.second;
    }
  }
};

template <typename Rule>
Lowered lower(const Request& request) {
  const auto operands = static_cast<std::size_t>(request.node.op->repeats());
  const std::size_t results = operands - 1, groups = (request.node.inputs.size() - 1) / operands;
  Lowered lowered = draft(request, Layout::plain);
  std::vector<std::int64_t> elements;
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t first = 1 + g * operands;
    const Layout layout = request.follow({first, first + 1});
    const Format format = format_of(request.inputs[first], layout);
    for (std::size_t i = first; i < first + operands; ++i) {
      if (request.has_input(i)) lowered.inputs[i] = format;
    }
    for (std::size_t r = 0; r < results; ++r) {
      if (request.has_output(g * results + r)) lowered.outputs[g * results + r] = format;
    }
    elements.push_back(request.inputs[first].elements());
  }
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [stream, operands, results, elements, rule = Rule(request.node.attributes)](const Operands& at) {
        UpdateAll<Rule> all{rule, at.in<float>(0), {}};
        Tensors& tensors = all.tensors;
        for (std::size_t g = 0; g < elements.size(); ++g) {
          Tensor& t = tensors.of[tensors.count++];
          const std::size_t in = 1 + g * operands, out = g * results;
          t = {at.in<float>(in), at.in<float>(in + 1), {}, at.out<float>(out), {},
               elements[g],      tensors.shares};
          for (std::size_t m = 0; m + 1 < results; ++m) {
            t.moments[m] = at.in<float>(in + 2 + m);
            t.new_moments[m] = at.out<float>(out + 1 + m);
          }
          tensors.shares += ceil_div(elements[g], share);
          if (tensors.count < max_tensors && g + 1 < elements.size()) continue;
          for_each(stream, tensors.shares, all);
          tensors.count = 0;
          tensors.shares = 0;
        }
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
    Element element{parameter[at], values[i], m[at], v[at]};
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
  static constexpr std::array entries{OpEntry{"sgd", lower<SgdRule>}, OpEntry{"rmsprop", lower<RmspropRule>},
                                      OpEntry{"adam", lower<AdamRule>}, OpEntry{"lazy_adam", lower_lazy}};
  return entries;
}

}  // namespace assay::cuda
