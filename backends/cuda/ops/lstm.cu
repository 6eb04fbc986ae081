// LSTM over whole sequences: the products over all steps at once where they can be, one product and one kernel of
// the gates a step where they cannot.
#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/lowering.hpp"

namespace assay::cuda {
namespace {

struct Sizes {
  std::int64_t samples, steps, features, units;
  bool last;
  explicit Sizes(const Request& request)
      : samples(request.in(0)[0]),
        steps(request.in(0)[1]),
        features(request.in(0)[2]),
        units(request.in(2)[1]),
        last(request.node.attributes.get<bool>("last")) {}
  std::int64_t gates() const { return 4 * units; }
  std::int64_t places() const { return samples * steps; }
};

// What the forward pass keeps, row (n, t) at n * steps + t: the gates after sigmoid and tanh, the cell, and the
// state that went into the step, as the product reads it.
struct Reserve {
  std::int64_t gates, c, h_before, bytes;  // offsets
  Reserve(const Sizes& s, DType dtype) {
    Scratch parts;
    gates = parts.add(s.places() * s.gates() * 4);
    c = parts.add(s.places() * s.units * 4);
    h_before = parts.add(s.places() * s.units * size_of(dtype));
    bytes = parts.bytes();
  }
};

template <typename T>
struct Step {
  std::int64_t steps, units, t;
  const float* bias;
  float *gates, *c;
  T *h_before, *y;
  bool last;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t n = i / units, u = i % units, place = n * steps + t;
    float* g = gates + place * 4 * units + u;
    const float input = sigmoid(g[0] + bias[u]), forget = sigmoid(g[units] + bias[units + u]);
    const float candidate = tanhf(g[2 * units] + bias[2 * units + u]);
    const float output = sigmoid(g[3 * units] + bias[3 * units + u]);
    const float before = t > 0 ? c[(place - 1) * units + u] : 0.0F;
    const float cell = input * candidate + forget * before;
    const T h = narrow<T>(output * tanhf(cell));
    g[0] = input;
    g[units] = forget;
    g[2 * units] = candidate;
    g[3 * units] = output;
    c[place * units + u] = cell;
    if (t == 0) h_before[place * units + u] = narrow<T>(0);
    if (t + 1 < steps) h_before[(place + 1) * units + u] = h;
    if (!last) y[place * units + u] = h;
    if (last && t + 1 == steps) y[n * units + u] = h;
  }
};

// The gradients of the gates before sigmoid and tanh, of one step.
template <typename T>
struct StepGradient {
  std::int64_t steps, units, t;
  const float *gates, *c;
  const T* dy;
  float *dh, *dc;
  T* dgates;
  bool last;
  ASSAY_HD void operator()(std::int64_t at) const {
    const std::int64_t n = at / units, u = at % units, place = n * steps + t;
    const float* gate = gates + place * 4 * units + u;
    const float i = gate[0], f = gate[units], g = gate[2 * units], o = gate[3 * units];
    const bool end = t + 1 == steps;
    float from_above = 0;
    if (!last) from_above = widen(dy[place * units + u]);
    if (last && end) from_above = widen(dy[n * units + u]);
    const float through_h = (end ? 0.0F : dh[at]) + from_above;
    const float squashed = tanhf(c[place * units + u]);
    const float through_c = (end ? 0.0F : dc[at]) + through_h * o * (1 - squashed * squashed);
    const float before = t > 0 ? c[(place - 1) * units + u] : 0.0F;
    T* d = dgates + place * 4 * units + u;
    d[0] = narrow<T>(through_c * g * i * (1 - i));
    d[units] = narrow<T>(through_c * before * f * (1 - f));
    d[2 * units] = narrow<T>(through_c * i * (1 - g * g));
    d[3 * units] = narrow<T>(through_h * squashed * o * (1 - o));
    dc[at] = through_c * f;
  }
};

MatmulSpec product(const Request& request, std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb,
                   DType result) {
  MatmulSpec spec = row_major_product(request, m, n, k, ta, tb);
  spec.result = result;
  return spec;
}

Lowered lower_forward(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  const Sizes s(request);
  const DType dtype = request.inputs[0].dtype;
  const Reserve reserve(s, dtype);
  Device& device = request.context.device;
  std::shared_ptr<Matmul> of_x =
      device.matmul(product(request, s.places(), s.gates(), s.features, false, true, DType::f32));
  MatmulSpec recurrent = product(request, s.samples, s.gates(), s.units, false, true, DType::f32);
  recurrent.lda = s.steps * s.units;  // one step of all samples
  recurrent.ldc = s.steps * s.gates();
  recurrent.stride_a = s.units;
  recurrent.stride_c = s.gates();
  recurrent.accumulate = true;
  std::shared_ptr<Matmul> of_h = device.matmul(recurrent);
  const bool keep = request.has_output(1);
  if (keep) lowered.outputs[1] = opaque_format(reserve.bytes, Layout::plain);
  Scratch scratch;
  const std::int64_t workspace = scratch.add(larger(of_x->workspace_bytes(), of_h->workspace_bytes()));
  const std::int64_t own_reserve = scratch.add(keep ? 0 : reserve.bytes);
  lowered.scratch_bytes = scratch.bytes();
  const Stream stream = device.stream();
  lowered.kernel = with_type(dtype, [&]<typename T>(T) {
    return make_kernel(
        [=](const Operands& at) {
          std::byte* const kept = keep ? at.out<std::byte>(1) : at.scratch_at<std::byte>(own_reserve);
          auto* const gates = reinterpret_cast<float*>(kept + reserve.gates);
          auto* const c = reinterpret_cast<float*>(kept + reserve.c);
          auto* const h_before = reinterpret_cast<T*>(kept + reserve.h_before);
          void* const space = at.scratch_at<std::byte>(workspace);
          of_x->run(at.inputs[0], at.inputs[1], nullptr, gates, space);
          for (std::int64_t t = 0; t < s.steps; ++t) {
            if (t > 0) of_h->run(h_before + t * s.units, at.inputs[2], nullptr, gates + t * s.gates(), space);
            for_each(stream, s.samples * s.units,
                     Step<T>{s.steps, s.units, t, at.in<float>(3), gates, c, h_before, at.out<T>(0), s.last});
          }
        },
        of_h->name());
  });
  return lowered;
}

Lowered lower_gradient(const Request& request) {
  Lowered lowered = draft(request, Layout::plain);
  lowered.inputs[3] = request.offer.inputs[3];
  const Sizes s(request);
  const DType dtype = request.inputs[0].dtype;
  const Reserve reserve(s, dtype);
  Device& device = request.context.device;
  // dh (N, H) = dgates(t) recurrent_weight
  MatmulSpec recurrent = product(request, s.samples, s.units, s.gates(), false, false, DType::f32);
  recurrent.lda = s.steps * s.gates();
  recurrent.stride_a = s.gates();
  std::shared_ptr<Matmul> to_h = device.matmul(recurrent);
  std::shared_ptr<Matmul> to_x =
      device.matmul(product(request, s.places(), s.features, s.gates(), false, false, dtype));
  std::shared_ptr<Matmul> to_weight =
      device.matmul(product(request, s.gates(), s.features, s.places(), true, false, DType::f32));
  std::shared_ptr<Matmul> to_recurrent =
      device.matmul(product(request, s.gates(), s.units, s.places(), true, false, DType::f32));
  const Matrix rows = matrix_of_rows(s.places(), s.gates());
  Scratch scratch;
  std::int64_t largest = 0;
  for (const auto& one : {to_h, to_x, to_weight, to_recurrent})
    largest = larger(largest, one->workspace_bytes());
  const std::int64_t workspace = scratch.add(largest);
  const std::int64_t of_dgates = scratch.add(s.places() * s.gates() * size_of(dtype));
  const std::int64_t of_dh = scratch.add(s.samples * s.units * 4);
  const std::int64_t of_dc = scratch.add(s.samples * s.units * 4);
  const std::int64_t partial = scratch.add(column_sum_scratch(rows));
  lowered.scratch_bytes = scratch.bytes();
  const Stream stream = device.stream();
  lowered.kernel = with_type(dtype, [&]<typename T>(T) {
    return make_kernel(
        [=, dx = request.has_output(3)](const Operands& at) {
          auto* const kept = at.in<std::byte>(3);
          auto* const gates = reinterpret_cast<const float*>(kept + reserve.gates);
          auto* const c = reinterpret_cast<const float*>(kept + reserve.c);
          auto* const h_before = reinterpret_cast<const T*>(kept + reserve.h_before);
          auto* const dgates = at.scratch_at<T>(of_dgates);
          auto *const dh = at.scratch_at<float>(of_dh), *const dc = at.scratch_at<float>(of_dc);
          void* const space = at.scratch_at<std::byte>(workspace);
          for (std::int64_t t = s.steps; t-- > 0;) {
            for_each(stream, s.samples * s.units,
                     StepGradient<T>{s.steps, s.units, t, gates, c, at.in<T>(4), dh, dc, dgates, s.last});
            if (t > 0) to_h->run(dgates + t * s.gates(), at.inputs[2], nullptr, dh, space);
          }
          if (dx) to_x->run(dgates, at.inputs[1], nullptr, at.outputs[3], space);
          to_weight->run(dgates, at.inputs[0], nullptr, at.outputs[0], space);
          to_recurrent->run(dgates, h_before, nullptr, at.outputs[1], space);
          column_sums(stream, rows, static_cast<const T*>(dgates), at.out<float>(2),
                      at.scratch_at<float>(partial));
        },
        to_h->name());
  });
  return lowered;
}

}  // namespace

std::span<const OpEntry> lstm_ops() {
  static constexpr std::array entries{OpEntry{"lstm", lower_forward},
                                      OpEntry{"lstm_gradient", lower_gradient}};
  return entries;
}

}  // namespace assay::cuda
