// Rotary position embedding, masks, the mean over the steps that are left, and the caches of task decode.
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

// One pair of a head at one position. The angle is computed in double, like the other backends' tables of
// angles.
template <typename T>
struct Turn {
  const T* x;
  T* y;
  std::int64_t steps, heads, pairs;
  double log_base, sign;
  bool interleaved;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t pair = i % pairs, head = i / pairs, step = head / heads % steps;
    const double angle =
        static_cast<double>(step) * exp(-log_base * static_cast<double>(pair) / static_cast<double>(pairs));
    const auto cosine = static_cast<float>(cos(angle)), sine = static_cast<float>(sign * sin(angle));
    const std::int64_t first = head * 2 * pairs + (interleaved ? 2 * pair : pair);
    const std::int64_t second = first + (interleaved ? 1 : pairs);
    const float u = widen(x[first]), w = widen(x[second]);
    y[first] = narrow<T>(u * cosine - w * sine);
    y[second] = narrow<T>(u * sine + w * cosine);
  }
};

Lowered lower_rotary(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  const Shape& x = request.in(0);
  const double log_base = std::log(request.node.attributes.number("base"));
  const double sign = request.node.attributes.get_or("inverse", false) ? -1 : 1;
  const bool interleaved = request.node.attributes.get<bool>("interleaved");
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=, steps = x[1], heads = x[2], pairs = x[3] / 2,
         n = request.inputs[0].elements() / 2](const Operands& at) {
          for_each(stream, n,
                   Turn<T>{at.in<T>(0), at.out<T>(0), steps, heads, pairs, log_base, sign, interleaved});
        },
        "own:pointwise");
  });
  return lowered;
}

struct HidePadding {
  const std::int32_t* tokens;
  float* mask;
  std::int64_t padding;
  ASSAY_HD void operator()(std::int64_t i) const { mask[i] = tokens[i] == padding ? -INFINITY : 0.0F; }
};

Lowered lower_padding_mask(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [=, n = request.inputs[0].elements(), padding = request.integer("padding")](const Operands& at) {
        for_each(stream, n, HidePadding{at.in<std::int32_t>(0), at.out<float>(0), padding});
      },
      "own:pointwise");
  return lowered;
}

// The steps of a sample that a mask leaves; all without one.
struct Steps {
  const float* mask;  // (samples, length)
  std::int64_t length;
  ASSAY_HD bool has(std::int64_t sample, std::int64_t t) const {
    return mask == nullptr || mask[sample * length + t] != -INFINITY;
  }
  // 1 / the number of steps; 0 if the mask hides all.
  ASSAY_HD float share(std::int64_t sample) const {
    std::int64_t count = 0;
    for (std::int64_t t = 0; t < length; ++t) count += has(sample, t) ? 1 : 0;
    return count == 0 ? 0.0F : 1.0F / static_cast<float>(count);
  }
};

template <typename T>
struct MeanOfSteps {
  Steps steps;
  const T* x;
  T* y;
  std::int64_t width;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t sample = i / width, column = i % width;
    float sum = 0;
    for (std::int64_t t = 0; t < steps.length; ++t) {
      if (steps.has(sample, t)) sum += widen(x[(sample * steps.length + t) * width + column]);
    }
    y[i] = narrow<T>(sum * steps.share(sample));
  }
};

// One element of each step of a sample.
template <typename T>
struct SpreadOverSteps {
  Steps steps;
  const T* dy;
  T* dx;
  std::int64_t width;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t sample = i / width, column = i % width;
    const T value = narrow<T>(widen(dy[i]) * steps.share(sample));
    for (std::int64_t t = 0; t < steps.length; ++t)
      dx[(sample * steps.length + t) * width + column] = steps.has(sample, t) ? value : narrow<T>(0);
  }
};

// By one thread for each element of the mean.
template <template <typename> typename Body>
Lowered lower_mean(const Request& request, const TensorType& mean, std::int64_t length) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=, n = mean.elements(), width = mean.shape.back()](const Operands& at) {
          for_each(stream, n, Body<T>{{at.in<float>(1), length}, at.in<T>(0), at.out<T>(0), width});
        },
        "own:rows");
  });
  return lowered;
}

Lowered lower_mean_pool(const Request& request) {
  return lower_mean<MeanOfSteps>(request, request.outputs[0], request.in(0)[1]);
}
Lowered lower_mean_pool_gradient(const Request& request) {
  return lower_mean<SpreadOverSteps>(request, request.inputs[0], request.out(0)[1]);
}

// Ops of task decode. A place outside of the tokens or the cache is left out.
struct TokensFrom {
  const std::int32_t* tokens;
  const std::int32_t* position;
  std::int32_t* y;
  std::int64_t all, length;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t place = position[0] + i % length;
    y[i] = place < 0 || place >= all ? -1 : tokens[i / length * all + place];
  }
};

Lowered lower_tokens_at(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [=, n = request.outputs[0].elements(), all = request.in(0)[1],
       length = request.out(0)[1]](const Operands& at) {
        for_each(
            stream, n,
            TokensFrom{at.in<std::int32_t>(0), at.in<std::int32_t>(1), at.out<std::int32_t>(0), all, length});
      },
      "own:copy");
  return lowered;
}

template <typename T>
struct WriteCache {
  const T* x;  // (samples, steps, width)
  const std::int32_t* position;
  T* y;  // (samples, places, width)
  std::int64_t steps, places, width;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t row = i / width, place = position[0] + row % steps;
    if (place >= 0 && place < places) y[(row / steps * places + place) * width + i % width] = x[i];
  }
};

template <typename T>
struct Copy {
  const T* x;
  T* y;
  ASSAY_HD void operator()(std::int64_t i) const { y[i] = x[i]; }
};

Lowered lower_cache_write(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  const Shape& cache = request.in(0);
  lowered.kernel = with_type(request.inputs[0].dtype, [&]<typename T>(T) {
    return make_kernel(
        [=, all = request.inputs[0].elements(), n = request.inputs[1].elements(), steps = request.in(1)[1],
         places = cache[1], width = cache[2] * cache[3]](const Operands& at) {
          T* const y = at.out<T>(0);
          if (y != at.in<T>(0)) for_each(stream, all, Copy<T>{at.in<T>(0), y});
          for_each(stream, n, WriteCache<T>{at.in<T>(1), at.in<std::int32_t>(2), y, steps, places, width});
        },
        "own:copy");
  });
  return lowered;
}

struct HideLaterPlaces {
  const std::int32_t* position;
  float* mask;  // (queries, keys)
  std::int64_t keys;
  ASSAY_HD void operator()(std::int64_t i) const {
    mask[i] = i % keys <= position[0] + i / keys ? 0.0F : -INFINITY;
  }
};

Lowered lower_cache_mask(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [=, n = request.outputs[0].elements(), keys = request.out(0)[3]](const Operands& at) {
        for_each(stream, n, HideLaterPlaces{at.in<std::int32_t>(0), at.out<float>(0), keys});
      },
      "own:pointwise");
  return lowered;
}

struct NextPosition {
  const std::int32_t* position;
  std::int32_t* y;
  std::int32_t by;
  ASSAY_HD void operator()(std::int64_t) const { y[0] = position[0] + by; }
};

Lowered lower_advance(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.in_place = in_place(request.node);
  const Stream stream = request.context.device.stream();
  lowered.kernel = make_kernel(
      [=, by = static_cast<std::int32_t>(request.integer("by"))](const Operands& at) {
        for_each(stream, 1, NextPosition{at.in<std::int32_t>(0), at.out<std::int32_t>(0), by});
      },
      "own:pointwise");
  return lowered;
}

}  // namespace

std::span<const OpEntry> sequence_ops() {
  static constexpr std::array entries{
      OpEntry{"rotary", lower_rotary},         OpEntry{"padding_mask", lower_padding_mask},
      OpEntry{"mean_pool", lower_mean_pool},   OpEntry{"mean_pool_gradient", lower_mean_pool_gradient},
      OpEntry{"tokens_at", lower_tokens_at},   OpEntry{"cache_write", lower_cache_write},
      OpEntry{"cache_mask", lower_cache_mask}, OpEntry{"advance", lower_advance}};
  return entries;
}

}  // namespace assay::cuda
