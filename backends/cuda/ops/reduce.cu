// Reductions over given dimensions, and ops made of them: in two rounds with a fixed order, without atomics.
#include "backends/cuda/kernels/walk.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

struct Sum {
  static constexpr float neutral = 0;
  ASSAY_HD static float combine(float a, float b) { return a + b; }
  template <typename Threads>
  ASSAY_TEAM static float over(const Threads& team, float value) {
    return team.sum(value);
  }
};
struct Max {
  static constexpr float neutral = -INFINITY;
  ASSAY_HD static float combine(float a, float b) { return fmaxf(a, b); }
  template <typename Threads>
  ASSAY_TEAM static float over(const Threads& team, float value) {
    return team.max(value);
  }
};

// Terms: the value that is summed at an offset of the whole tensor.
template <typename T>
struct Element {
  const T* x;
  ASSAY_HD float operator()(std::int64_t at) const { return widen(x[at]); }
};
template <typename T>
struct Square {
  const T* x;
  ASSAY_HD float operator()(std::int64_t at) const { return widen(x[at]) * widen(x[at]); }
};
template <typename T>
struct Product {
  const T *a, *b;
  ASSAY_HD float operator()(std::int64_t at) const { return widen(a[at]) * widen(b[at]); }
};

// Round one: finish(r * parts + p, part p of sum r).
template <typename Kind, typename Term, typename Finish>
struct Partial {
  SplitWalk walk;
  Term term;
  std::int64_t parts;
  Finish finish;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t r = row / parts, part = row % parts, count = walk.summed.elements;
    const std::int64_t each = ceil_div(count, parts), first = part * each;
    const std::int64_t base = walk.kept.offset(r);
    float value = Kind::neutral;
    for (std::int64_t j = first + team.rank(); j < smaller(first + each, count); j += team.size())
      value = Kind::combine(value, term(base + walk.summed.offset(j)));
    value = Kind::over(team, value);
    if (team.rank() == 0) finish(row, value);
  }
};

// Round two: y[r] = finish(the parts of r).
template <typename Kind, typename Finish>
struct Total {
  const float* partial;
  std::int64_t parts;
  Finish finish;
  template <typename Threads>
  ASSAY_TEAM void operator()(const Threads& team, std::int64_t r) const {
    float value = Kind::neutral;
    for (std::int64_t p = team.rank(); p < parts; p += team.size())
      value = Kind::combine(value, partial[r * parts + p]);
    value = Kind::over(team, value);
    if (team.rank() == 0) finish(r, value);
  }
};

template <typename T>
struct Scaled {
  T* y;
  float scale;
  ASSAY_HD void operator()(std::int64_t r, float value) const { y[r] = narrow<T>(value * scale); }
};
struct Root {
  float* y;
  ASSAY_HD void operator()(std::int64_t r, float value) const { y[r] = sqrtf(value); }
};

struct Plan {
  Stream stream;
  SplitWalk walk;
  std::int64_t parts;

  Plan(const Request& request, const Shape& shape, std::span<const std::int64_t> axes)
      : stream(request.context.device.stream()),
        walk(split_walk(shape, axes)),
        parts(parts_of_sum(walk.kept.elements, walk.summed.elements, 32)) {}
  std::int64_t scratch_bytes() const {
    return walk.kept.elements * parts * static_cast<std::int64_t>(sizeof(float));
  }
  template <typename Kind, typename Term, typename Finish>
  void enqueue(float* partial, const Term& term, const Finish& finish) const {
    const std::int64_t width = walk.summed.elements / parts;
    if (parts == 1)
      return for_each_row(stream, walk.kept.elements, width,
                          Partial<Kind, Term, Finish>{walk, term, 1, finish});
    for_each_row(stream, walk.kept.elements * parts, width,
                 Partial<Kind, Term, Scaled<float>>{walk, term, parts, {partial, 1.0F}});
    for_each_total(stream, walk.kept.elements, parts, Total<Kind, Finish>{partial, parts, finish});
  }
};

std::span<const std::int64_t> axes_of(const Request& request) {
  return request.node.attributes.get<std::vector<std::int64_t>>("axes");
}

Lowered lower_reduce(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Plan plan(request, request.in(0), axes_of(request));
  const auto& kind = request.node.attributes.get<std::string>("kind");
  const float scale = kind == "mean" ? 1.0F / static_cast<float>(plan.walk.summed.elements) : 1.0F;
  lowered.scratch_bytes = plan.scratch_bytes();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [plan, scale, max = kind == "max"](const Operands& at) {
          const Element<T> term{at.in<T>(0)};
          const Scaled<T> finish{at.out<T>(0), scale};
          if (max) {
            plan.enqueue<Max>(at.scratch_at<float>(0), term, finish);
          } else {
            plan.enqueue<Sum>(at.scratch_at<float>(0), term, finish);
          }
        },
        "own:reduction");
  });
  return lowered;
}

// dx at each element of a row of the whole tensor.
template <typename T>
struct Spread {
  SplitWalk walk;
  const T *dy, *x, *y;  // x and y for a maximum, else null
  T* dx;
  float scale;
  ASSAY_TEAM void operator()(const Team& team, std::int64_t r) const {
    const std::int64_t base = walk.kept.offset(r), count = walk.summed.elements;
    float value = widen(dy[r]) * scale;
    if (x != nullptr) {
      float ties = 0;
      for (std::int64_t j = team.rank(); j < count; j += team.size())
        ties += widen(x[base + walk.summed.offset(j)]) == widen(y[r]) ? 1.0F : 0.0F;
      value = widen(dy[r]) / team.sum(ties);
    }
    for (std::int64_t j = team.rank(); j < count; j += team.size()) {
      const std::int64_t i = base + walk.summed.offset(j);
      const bool gets = x == nullptr || widen(x[i]) == widen(y[r]);
      dx[i] = narrow<T>(gets ? value : 0.0F);
    }
  }
};

Lowered lower_reduce_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Plan plan(request, request.out(0), axes_of(request));
  const auto& kind = request.node.attributes.get<std::string>("kind");
  const float scale = kind == "mean" ? 1.0F / static_cast<float>(plan.walk.summed.elements) : 1.0F;
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [plan, scale](const Operands& at) {
          for_each_row(plan.stream, plan.walk.kept.elements, plan.walk.summed.elements,
                       Spread<T>{plan.walk, at.in<T>(0), at.in<T>(1), at.in<T>(2), at.out<T>(0), scale});
        },
        "own:rows");
  });
  return lowered;
}

template <typename T>
struct Normalise {
  SplitWalk walk;
  const T* x;
  const float* norm;
  T* y;
  float epsilon;
  ASSAY_HD void operator()(std::int64_t number) const {
    const std::int64_t r = number / walk.summed.elements;
    const std::int64_t i = walk.kept.offset(r) + walk.summed.offset(number % walk.summed.elements);
    y[i] = narrow<T>(widen(x[i]) / fmaxf(norm[r], epsilon));
  }
};

template <typename T>
struct NormaliseGradient {
  SplitWalk walk;
  const T *y, *dy;
  const float *norm, *sum;
  T* dx;
  float epsilon;
  ASSAY_HD void operator()(std::int64_t number) const {
    const std::int64_t r = number / walk.summed.elements;
    const std::int64_t i = walk.kept.offset(r) + walk.summed.offset(number % walk.summed.elements);
    const float above = widen(dy[i]);
    dx[i] = narrow<T>(norm[r] > epsilon ? (above - widen(y[i]) * sum[r]) / norm[r] : above / epsilon);
  }
};

Lowered lower_normalise(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.in_place = in_place(request.node);
  const Plan plan(request, request.in(0), axes_of(request));
  const float epsilon = request.number("epsilon");
  Scratch scratch;
  const std::int64_t partial = scratch.add(plan.scratch_bytes());
  const std::int64_t norms = scratch.add(plan.walk.kept.elements * static_cast<std::int64_t>(sizeof(float)));
  lowered.scratch_bytes = scratch.bytes();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=, n = request.inputs[0].elements()](const Operands& at) {
          float* const norm = at.out<float>(1) != nullptr ? at.out<float>(1) : at.scratch_at<float>(norms);
          plan.enqueue<Sum>(at.scratch_at<float>(partial), Square<T>{at.in<T>(0)}, Root{norm});
          for_each(plan.stream, n, Normalise<T>{plan.walk, at.in<T>(0), norm, at.out<T>(0), epsilon});
        },
        "own:reduction");
  });
  return lowered;
}

Lowered lower_normalise_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.in_place = in_place(request.node);
  const Plan plan(request, request.in(0), axes_of(request));
  const float epsilon = request.number("epsilon");
  Scratch scratch;
  const std::int64_t partial = scratch.add(plan.scratch_bytes());
  const std::int64_t sums = scratch.add(plan.walk.kept.elements * static_cast<std::int64_t>(sizeof(float)));
  lowered.scratch_bytes = scratch.bytes();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=, n = request.inputs[0].elements()](const Operands& at) {
          auto* const sum = at.scratch_at<float>(sums);
          plan.enqueue<Sum>(at.scratch_at<float>(partial), Product<T>{at.in<T>(0), at.in<T>(2)},
                            Scaled<float>{sum, 1.0F});
          for_each(plan.stream, n,
                   NormaliseGradient<T>{plan.walk, at.in<T>(0), at.in<T>(2), at.in<float>(1), sum,
                                        at.out<T>(0), epsilon});
        },
        "own:reduction");
  });
  return lowered;
}

Lowered lower_dot(const Request& request) {
  static constexpr std::array<std::int64_t, 1> all{0};
  Lowered lowered = draft(request, Layout::plain);
  const Plan plan(request, request.in(0), all);
  lowered.scratch_bytes = plan.scratch_bytes();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [plan](const Operands& at) {
          plan.enqueue<Sum>(at.scratch_at<float>(0), Product<T>{at.in<T>(0), at.in<T>(1)},
                            Scaled<float>{at.out<float>(0), 1.0F});
        },
        "own:reduction");
  });
  return lowered;
}

// The number of the slope of an element of x (N, C, ...): `inner` elements in a row have the same.
struct SlopeNumber {
  std::int64_t inner, count;
  ASSAY_HD std::int64_t of(std::int64_t i) const { return i / inner % count; }
};
SlopeNumber slope_number(const Request& request, Layout layout) {
  const Shape& x = request.in(0);
  const std::int64_t inner =
      layout == Layout::plain ? element_count(x) / x[0] / x[1] : strides_of(x, layout).c;
  return {inner, request.in(1)[0]};
}

template <typename T>
struct Prelu {
  SlopeNumber number;
  const T* x;
  const float* slope;
  T* y;
  ASSAY_HD void operator()(std::int64_t i) const {
    const float value = widen(x[i]);
    y[i] = narrow<T>(value > 0 ? value : slope[number.of(i)] * value);
  }
};
template <typename T>
struct PreluGradient {
  SlopeNumber number;
  const T* x;
  const float* slope;
  const T* dy;
  T* dx;
  ASSAY_HD void operator()(std::int64_t i) const {
    dx[i] = narrow<T>(widen(x[i]) > 0 ? widen(dy[i]) : slope[number.of(i)] * widen(dy[i]));
  }
};
// A term: what an element adds to the gradient of its slope.
template <typename T>
struct OfSlope {
  const T *x, *dy;
  ASSAY_HD float operator()(std::int64_t at) const {
    const float value = widen(x[at]);
    return value > 0 ? 0.0F : value * widen(dy[at]);
  }
};

Lowered lower_prelu(const Request& request) {
  const Layout layout = request.follow({0});
  Lowered lowered = draft(request, layout);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [stream, number = slope_number(request, layout),
         n = request.outputs[0].elements()](const Operands& at) {
          for_each(stream, n, Prelu<T>{number, at.in<T>(0), at.in<float>(1), at.out<T>(0)});
        },
        "own:pointwise");
  });
  return lowered;
}

Lowered lower_prelu_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  std::vector<std::int64_t> axes;
  for (std::int64_t axis = 0; axis < std::ssize(request.in(0)); ++axis)
    if (axis != 1 || request.in(1)[0] == 1) axes.push_back(axis);
  const Plan plan(request, request.in(0), axes);
  lowered.scratch_bytes = plan.scratch_bytes();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [plan, number = slope_number(request, Layout::plain),
         n = request.inputs[0].elements()](const Operands& at) {
          const T *const x = at.in<T>(0), *const dy = at.in<T>(2);
          if (T* const dx = at.out<T>(0); dx != nullptr)
            for_each(plan.stream, n, PreluGradient<T>{number, x, at.in<float>(1), dy, dx});
          if (auto* const dslope = at.out<float>(1); dslope != nullptr)
            plan.enqueue<Sum>(at.scratch_at<float>(0), OfSlope<T>{x, dy}, Scaled<float>{dslope, 1.0F});
        },
        "own:reduction");
  });
  return lowered;
}

}  // namespace

std::span<const OpEntry> reduce_ops() {
  static constexpr std::array entries{OpEntry{"reduce", lower_reduce},
                                      OpEntry{"reduce_gradient", lower_reduce_gradient},
                                      OpEntry{"normalise", lower_normalise},
                                      OpEntry{"normalise_gradient", lower_normalise_gradient},
                                      OpEntry{"dot", lower_dot},
                                      OpEntry{"prelu", lower_prelu},
                                      OpEntry{"prelu_gradient", lower_prelu_gradient}};
  return entries;
}

}  // namespace assay::cuda
