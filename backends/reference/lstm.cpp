// LSTM over whole sequences: each thread computes all steps of its own samples.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/reference/bf16.hpp"
#include "backends/reference/body.hpp"
#include "backends/reference/gemm.hpp"

namespace assay::reference {
namespace {

struct LstmSizes {
  std::int64_t samples, steps, features, units;
  bool last, narrow;  // narrow: bf16

  explicit LstmSizes(const Context& context)
      : samples(context.in(0)[0]),
        steps(context.in(0)[1]),
        features(context.in(0)[2]),
        units(context.in(2)[1]),
        last(context.node.attributes.get<bool>("last")),
        narrow(context.inputs[0].dtype == DType::bf16) {}
  std::int64_t gates() const { return 4 * units; }
  std::int64_t places() const { return samples * steps; }
};

// Values that the forward pass keeps: after the sigmoid or tanh, row (n, t) at n * steps + t.
template <typename T>
struct Reserve {
  T *gates, *c, *h;  // (N, T, 4H), (N, T, H), (N, T, H); h in the form that the product reads

  Reserve(void* memory, const LstmSizes& s)
      : gates(static_cast<T*>(memory)), c(gates + s.places() * s.gates()), h(c + s.places() * s.units) {}
  static std::int64_t elements(const LstmSizes& s) { return s.places() * (s.gates() + 2 * s.units); }
};

template <typename T>
T logistic(T x) {
  return 1 / (1 + std::exp(-x));
}

template <typename T>
T rounded(T x, bool narrow) {
  return narrow ? static_cast<T>(static_cast<float>(Bf16(static_cast<float>(x)))) : x;
}

template <typename T>
Body<T> lstm(const Context& context) {
  const LstmSizes s(context);
  ThreadPool& pool = context.pool;
  const bool keep = context.wants(1);
  const std::int64_t of_x = packed_elements(s.gates(), s.features);
  const std::int64_t of_h = packed_elements(s.gates(), s.units);
  const auto run = [=, &pool](const Call<T>& call) {
    T *x_weight = call.scratch, *h_weight = x_weight + of_x;
    pack<T>({call.in(1), 1, s.features}, s.gates(), s.features, x_weight);
    pack<T>({call.in(2), 1, s.units}, s.gates(), s.units, h_weight);
    const Reserve<T> kept(keep ? call.outputs[1] : h_weight + of_h, s);
    pool.run(s.samples, 1, [&](int, std::int64_t begin, std::int64_t end) {
      const std::int64_t first = begin * s.steps;
      gemm<T>((end - begin) * s.steps, s.gates(), s.features,
              {call.in(0) + first * s.features, s.features, 1}, x_weight, kept.gates + first * s.gates(),
              s.gates(), false);
      for (std::int64_t t = 0; t < s.steps; ++t) {
        const std::int64_t at = first + t;
        if (t > 0) {
          gemm<T>(end - begin, s.gates(), s.units, {kept.h + (at - 1) * s.units, s.steps * s.units, 1},
                  h_weight, kept.gates + at * s.gates(), s.steps * s.gates(), true);
        }
        for (std::int64_t n = begin; n < end; ++n) {
          const std::int64_t place = n * s.steps + t;
          T* gates = kept.gates + place * s.gates();
          T *c = kept.c + place * s.units, *h = kept.h + place * s.units;
          for (std::int64_t u = 0; u < s.units; ++u) {
            T *i = gates + u, *f = i + s.units, *g = f + s.units, *o = g + s.units;
            *i = logistic(*i + call.in(3)[u]);
            *f = logistic(*f + call.in(3)[s.units + u]);
            *g = std::tanh(*g + call.in(3)[2 * s.units + u]);
            *o = logistic(*o + call.in(3)[3 * s.units + u]);
            c[u] = *i * *g + (t > 0 ? *f * c[u - s.units] : T(0));
            h[u] = rounded(*o * std::tanh(c[u]), s.narrow);
          }
        }
      }
      for (std::int64_t n = begin; n < end; ++n) {
        const std::int64_t from = s.last ? s.steps - 1 : 0, count = s.last ? 1 : s.steps;
        std::copy_n(kept.h + (n * s.steps + from) * s.units, count * s.units,
                    call.out(0) + n * count * s.units);
      }
    });
  };
  return {run,
          of_x + of_h + (keep ? 0 : Reserve<T>::elements(s)),
          {0, keep ? Reserve<T>::elements(s) * static_cast<std::int64_t>(sizeof(T)) : 0}};
}

// The gradients of the gates before sigmoid and tanh, for some samples and all steps, last step first.
// h_weight: recurrent_weight packed for a product from the left. dh, dc: (N, H) of scratch.
template <typename T>
void gate_gradients(const LstmSizes& s, const Reserve<T>& kept, const T* dy, const T* h_weight,
                    std::int64_t begin, std::int64_t end, T* dgates, T* dh, T* dc) {
  std::fill(dh + begin * s.units, dh + end * s.units, T(0));
  std::fill(dc + begin * s.units, dc + end * s.units, T(0));
  for (std::int64_t t = s.steps; t-- > 0;) {
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t place = n * s.steps + t;
      const T *gates = kept.gates + place * s.gates(), *c = kept.c + place * s.units;
      T* d = dgates + place * s.gates();
      for (std::int64_t u = 0; u < s.units; ++u) {
        const T i = gates[u], f = gates[s.units + u], g = gates[2 * s.units + u], o = gates[3 * s.units + u];
        T from_above = 0;
        if (!s.last) from_above = dy[place * s.units + u];
        if (s.last && t == s.steps - 1) from_above = dy[n * s.units + u];
        const T through_h = dh[n * s.units + u] + from_above;
        const T squashed = std::tanh(c[u]);
        const T through_c = dc[n * s.units + u] + through_h * o * (1 - squashed * squashed);
        const T before = t > 0 ? c[u - s.units] : T(0);
        d[u] = rounded(through_c * g * i * (1 - i), s.narrow);
        d[s.units + u] = rounded(through_c * before * f * (1 - f), s.narrow);
        d[2 * s.units + u] = rounded(through_c * i * (1 - g * g), s.narrow);
        d[3 * s.units + u] = rounded(through_h * squashed * o * (1 - o), s.narrow);
        dc[n * s.units + u] = through_c * f;
      }
    }
    if (t > 0) {
      gemm<T>(end - begin, s.units, s.gates(),
              {dgates + (begin * s.steps + t) * s.gates(), s.steps * s.gates(), 1}, h_weight,
              dh + begin * s.units, s.units, false);
    }
  }
}

// Rows [begin, end) of a weight's gradient: sum over (n, t) of dgates(n, t) and the operand at (n, t - lag).
template <typename T>
void weight_gradient(const LstmSizes& s, const T* dgates, const T* operand, std::int64_t width,
                     std::int64_t lag, std::int64_t begin, std::int64_t end, T* packed, T* gradient) {
  std::fill(gradient + begin * width, gradient + end * width, T(0));
  if (s.steps <= lag) return;
  for (std::int64_t n = 0; n < s.samples; ++n) {
    pack<T>({operand + n * s.steps * width, width, 1}, width, s.steps - lag, packed);
    gemm<T>(end - begin, width, s.steps - lag,
            {dgates + (n * s.steps + lag) * s.gates() + begin, 1, s.gates()}, packed,
            gradient + begin * width, width, true);
  }
}

template <typename T>
Body<T> lstm_gradient(const Context& context) {
  const LstmSizes s(context);
  ThreadPool& pool = context.pool;
  const bool wants_dx = context.wants(3);
  const std::int64_t of_x = packed_elements(s.features, s.gates());
  const std::int64_t of_h = packed_elements(s.units, s.gates());
  const std::int64_t of_steps = packed_elements(std::max(s.features, s.units), s.steps);
  const auto run = [=, &pool](const Call<T>& call) {
    T *x_weight = call.scratch, *h_weight = x_weight + of_x, *dgates = h_weight + of_h;
    T *dh = dgates + s.places() * s.gates(), *dc = dh + s.samples * s.units,
      *packed = dc + s.samples * s.units;
    pack<T>({call.in(1), s.features, 1}, s.features, s.gates(), x_weight);
    pack<T>({call.in(2), s.units, 1}, s.units, s.gates(), h_weight);
    const Reserve<T> kept(call.inputs[3], s);
    pool.run(s.samples, 1, [&](int, std::int64_t begin, std::int64_t end) {
      gate_gradients(s, kept, call.in(4), h_weight, begin, end, dgates, dh, dc);
      if (!wants_dx) return;
      const std::int64_t first = begin * s.steps;
      gemm<T>((end - begin) * s.steps, s.features, s.gates(), {dgates + first * s.gates(), s.gates(), 1},
              x_weight, call.out(3) + first * s.features, s.features, false);
    });
    pool.run(s.gates(), 4, [&](int part, std::int64_t begin, std::int64_t end) {
      T* own = packed + part * of_steps;
      weight_gradient<T>(s, dgates, call.in(0), s.features, 0, begin, end, own, call.out(0));
      weight_gradient<T>(s, dgates, kept.h, s.units, 1, begin, end, own, call.out(1));
      for (std::int64_t j = begin; j < end; ++j) {
        T sum = 0;
        for (std::int64_t place = 0; place < s.places(); ++place) sum += dgates[place * s.gates() + j];
        call.out(2)[j] = sum;
      }
    });
  };
  return {run, of_x + of_h + s.places() * s.gates() + 2 * s.samples * s.units + of_steps * pool.size()};
}

}  // namespace

std::span<const OpEntry> lstm_ops() {
  static constexpr std::array entries{
      OpEntry{"lstm", lstm<float>, lstm<double>, -1},
      OpEntry{"lstm_gradient", lstm_gradient<float>, lstm_gradient<double>, -1}};
  return entries;
}

}  // namespace assay::reference
