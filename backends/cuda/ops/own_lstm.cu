#include "backends/cuda/own_lstm.hpp"

#include <algorithm>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/kernels/vector.hpp"
#include "backends/cuda/lowering.hpp"
#include "backends/cuda/lstm_steps.hpp"

namespace assay::cuda {
namespace {

// Values kept by the forward pass, row (n, t) at n * steps + t: the gates after sigmoid and tanh, the cell,
// and the state before the step in the form that the product reads.
struct Reserve {
  std::int64_t gates, c, h_before, bytes;  // offsets
  explicit Reserve(const LstmSpec& s) {
    Scratch parts;
    gates = parts.add(s.places() * s.gates() * 4);
    c = parts.add(s.places() * s.units * 4);
    h_before = parts.add(s.places() * s.units * size_of(s.operands));
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

// The gradients of the gates before sigmoid and tanh in one step.
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

// Row-major without gaps; the caller sets the strides.
MatmulSpec product(const LstmSpec& s, std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb,
                   DType result) {
  MatmulSpec spec = row_major_product(m, n, k, ta, tb);
  spec.operands = s.operands;
  spec.result = result;
  spec.tf32 = s.tf32;
  return spec;
}

class OwnLstm final : public Lstm {
 public:
  OwnLstm(const LstmSpec& spec, Device& device, std::string name, std::string suffix)
      : s_(spec),
        name_(std::move(name)),
        suffix_(std::move(suffix)),
        reserve_(spec),
        stream_(device.stream()),
        rows_(matrix_of_rows(s_.places(), s_.gates())),
        steps_{s_.samples, s_.steps, s_.units, s_.last},
        in_one_launch_(has_lstm_steps(spec)) {
    of_x_ = device.matmul(product(s_, s_.places(), s_.gates(), s_.features, false, true, DType::f32));
    if (!in_one_launch_) prepare_steps(device);
    if (s_.training) prepare_gradient(device);
  }

  std::int64_t reserve_bytes() const override { return reserve_.bytes; }
  std::int64_t forward_workspace_bytes() const override {
    return larger(of_x_->workspace_bytes(), in_one_launch_ ? 0 : of_h_->workspace_bytes());
  }
  std::int64_t gradient_workspace_bytes() const override { return workspace_.bytes(); }
  std::string name() const override {
    return name_ + ":" + (in_one_launch_ ? "one_launch" : of_h_->name()) + suffix_;
  }
  bool is_own() const override { return true; }

  void forward(const LstmOperands& in, void* y, void* reserve, void* workspace) override {
    of_x_->run(in.x, in.weight, nullptr, at<float>(reserve, reserve_.gates), workspace);
    if (in_one_launch_)
      return lstm_steps(stream_, steps_, static_cast<const Bf16*>(in.recurrent), in.bias,
                        at<float>(reserve, reserve_.gates), at<float>(reserve, reserve_.c),
                        at<Bf16>(reserve, reserve_.h_before), static_cast<Bf16*>(y));
    with_type(s_.operands, [&]<typename T>(T) { run_steps<T>(in, static_cast<T*>(y), reserve, workspace); });
  }

  void gradient(const LstmOperands& in, const void* dy, void* reserve, const LstmGradients& to,
                void* workspace) override {
    with_type(s_.operands, [&]<typename T>(T) {
      T* const dgates = at<T>(workspace, dgates_);
      void* const space = at<std::byte>(workspace, products_);
      if (in_one_launch_)
        lstm_steps_gradient(stream_, steps_, static_cast<const Bf16*>(in.recurrent),
                            at<float>(reserve, reserve_.gates), at<float>(reserve, reserve_.c),
                            static_cast<const Bf16*>(dy), at<Bf16>(workspace, dgates_));
      else
        differentiate_steps<T>(in, static_cast<const T*>(dy), reserve, workspace);
      if (to.dx != nullptr) to_x_->run(dgates, in.weight, nullptr, to.dx, space);
      to_weight_->run(dgates, in.x, nullptr, to.weight, space);
      to_recurrent_->run(dgates, at<T>(reserve, reserve_.h_before), nullptr, to.recurrent, space);
      column_sums(stream_, rows_, static_cast<const T*>(dgates), to.bias, at<float>(workspace, partial_));
    });
  }

 private:
  template <typename T>
  static T* at(void* base, std::int64_t offset) {
    return reinterpret_cast<T*>(static_cast<std::byte*>(base) + offset);
  }

  void prepare_steps(Device& device) {
    MatmulSpec recurrent = product(s_, s_.samples, s_.gates(), s_.units, false, true, DType::f32);
    recurrent.lda = s_.steps * s_.units;  // one step of all samples
    recurrent.ldc = s_.steps * s_.gates();
    recurrent.stride_a = s_.units;
    recurrent.stride_c = s_.gates();
    recurrent.accumulate = true;
    of_h_ = device.matmul(recurrent);
  }

  template <typename T>
  void run_steps(const LstmOperands& in, T* y, void* reserve, void* workspace) {
    auto *const gates = at<float>(reserve, reserve_.gates), *const c = at<float>(reserve, reserve_.c);
    T* const h_before = at<T>(reserve, reserve_.h_before);
    for (std::int64_t t = 0; t < s_.steps; ++t) {
      if (t > 0)
        of_h_->run(h_before + t * s_.units, in.recurrent, nullptr, gates + t * s_.gates(), workspace);
      for_each(stream_, s_.samples * s_.units,
               Step<T>{s_.steps, s_.units, t, in.bias, gates, c, h_before, y, s_.last});
    }
  }

  template <typename T>
  void differentiate_steps(const LstmOperands& in, const T* dy, void* reserve, void* workspace) {
    auto *const gates = at<float>(reserve, reserve_.gates), *const c = at<float>(reserve, reserve_.c);
    auto *const dh = at<float>(workspace, dh_), *const dc = at<float>(workspace, dc_);
    T* const dgates = at<T>(workspace, dgates_);
    for (std::int64_t t = s_.steps; t-- > 0;) {
      for_each(stream_, s_.samples * s_.units,
               StepGradient<T>{s_.steps, s_.units, t, gates, c, dy, dh, dc, dgates, s_.last});
      if (t > 0)
        to_h_->run(dgates + t * s_.gates(), in.recurrent, nullptr, dh, at<std::byte>(workspace, products_));
    }
  }

  void prepare_gradient(Device& device) {
    if (!in_one_launch_) {
      // dh (N, H) = dgates(t) recurrent
      MatmulSpec recurrent = product(s_, s_.samples, s_.units, s_.gates(), false, false, DType::f32);
      recurrent.lda = s_.steps * s_.gates();
      recurrent.stride_a = s_.gates();
      to_h_ = device.matmul(recurrent);
    }
    to_x_ = device.matmul(product(s_, s_.places(), s_.features, s_.gates(), false, false, s_.operands));
    to_weight_ = device.matmul(product(s_, s_.gates(), s_.features, s_.places(), true, false, DType::f32));
    to_recurrent_ = device.matmul(product(s_, s_.gates(), s_.units, s_.places(), true, false, DType::f32));
    std::int64_t largest = 0;
    for (const Matmul* one : {to_h_.get(), to_x_.get(), to_weight_.get(), to_recurrent_.get()})
      if (one != nullptr) largest = larger(largest, one->workspace_bytes());
    products_ = workspace_.add(largest);
    dgates_ = workspace_.add(s_.places() * s_.gates() * size_of(s_.operands));
    dh_ = workspace_.add(in_one_launch_ ? 0 : s_.samples * s_.units * 4);
    dc_ = workspace_.add(in_one_launch_ ? 0 : s_.samples * s_.units * 4);
    partial_ = workspace_.add(column_sum_scratch(rows_));
  }

  LstmSpec s_;
  std::string name_, suffix_;
  Reserve reserve_;
  Stream stream_;
  Matrix rows_;
  LstmSteps steps_;
  bool in_one_launch_;
  Scratch workspace_;                                                       // of the gradient
  std::int64_t products_ = 0, dgates_ = 0, dh_ = 0, dc_ = 0, partial_ = 0;  // in it
  std::unique_ptr<Matmul> of_x_, of_h_, to_h_, to_x_, to_weight_, to_recurrent_;
};

// The position of parameter i in the packed buffer; weights come before recurrent weights and biases.
struct PackedPlace {
  std::int64_t packed = 0, index = 0;
  enum class Of : std::uint8_t { weight, recurrent, bias } of = Of::weight;
};

ASSAY_HD PackedPlace place_of(const LstmPacking& p, std::int64_t i) {
  const std::int64_t of_weight = 4 * p.units * p.features, of_recurrent = 4 * p.units * p.units;
  if (i < of_weight) {
    const std::int64_t each = p.units * p.features;
    return {p.weight[static_cast<std::size_t>(i / each)] + i % each, i, PackedPlace::Of::weight};
  }
  i -= of_weight;
  if (i < of_recurrent) {
    const std::int64_t each = p.units * p.units;
    return {p.recurrent[static_cast<std::size_t>(i / each)] + i % each, i, PackedPlace::Of::recurrent};
  }
  i -= of_recurrent;
  return {p.bias[static_cast<std::size_t>(i / p.units)] + i % p.units, i, PackedPlace::Of::bias};
}

template <typename From, typename To>
struct Pack {
  LstmPacking packing;
  const From *weight, *recurrent;
  const float* bias;
  To* packed;
  ASSAY_HD void operator()(std::int64_t i) const {
    const PackedPlace at = place_of(packing, i);
    packed[at.packed] = narrow<To>(at.of == PackedPlace::Of::weight      ? widen(weight[at.index])
                                   : at.of == PackedPlace::Of::recurrent ? widen(recurrent[at.index])
                                                                         : bias[at.index]);
  }
};

template <typename T>
struct Unpack {
  LstmPacking packing;
  const T* packed;
  float *weight, *recurrent, *bias;
  ASSAY_HD void operator()(std::int64_t i) const {
    const PackedPlace at = place_of(packing, i);
    float* const to = at.of == PackedPlace::Of::weight      ? weight
                      : at.of == PackedPlace::Of::recurrent ? recurrent
                                                            : bias;
    to[at.index] = widen(packed[at.packed]);
  }
};

}  // namespace

std::unique_ptr<Lstm> make_own_lstm(const LstmSpec& spec, Device& device, std::string name,
                                    std::string suffix) {
  return std::make_unique<OwnLstm>(spec, device, std::move(name), std::move(suffix));
}

void check_packing(const LstmPacking& p, std::int64_t elements) {
  struct Range {
    std::int64_t begin, end;
  };
  std::vector<Range> parts;
  for (std::size_t gate = 0; gate < 4; ++gate) {
    parts.push_back({p.weight[gate], p.weight[gate] + p.units * p.features});
    parts.push_back({p.recurrent[gate], p.recurrent[gate] + p.units * p.units});
    parts.push_back({p.bias[gate], p.bias[gate] + p.units});
  }
  std::sort(parts.begin(), parts.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::int64_t last = 0;
  for (const Range& part : parts) {
    if (part.begin < last || part.end > elements)
      throw std::runtime_error(
          "[lstm] the parts of the library's parameter buffer overlap, or lie outside of it");
    last = part.end;
  }
}

void pack_lstm(Stream stream, DType from_type, DType to_type, const LstmPacking& packing,
               const LstmOperands& from, void* packed) {
  with_type(from_type, [&]<typename From>(From) {
    with_type(to_type, [&]<typename To>(To) {
      for_each(stream, packing.parameters(),
               Pack<From, To>{packing, static_cast<const From*>(from.weight),
                              static_cast<const From*>(from.recurrent), from.bias, static_cast<To*>(packed)});
    });
  });
}

void unpack_lstm(Stream stream, DType dtype, const LstmPacking& packing, const void* packed,
                 const LstmGradients& to) {
  with_type(dtype, [&]<typename T>(T) {
    for_each(stream, packing.parameters(),
             Unpack<T>{packing, static_cast<const T*>(packed), to.weight, to.recurrent, to.bias});
  });
}

namespace {

// Vectors are only moved, and numbers also converted.
template <typename To, typename From>
ASSAY_HD To converted(const From& value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else {
    return narrow<To>(widen(value));
  }
}

template <typename From, typename To>
struct SwapOuter {
  const From* from;
  To* to;
  std::int64_t outer, inner, row;
  ASSAY_HD void operator()(std::int64_t i) const {
    const std::int64_t element = i % row, place = i / row;
    const std::int64_t a = place % outer, b = place / outer;
    to[i] = converted<To>(from[(a * inner + b) * row + element]);
  }
};

template <typename From, typename To>
void swap_outer_by(Stream stream, const void* from, void* to, std::int64_t outer, std::int64_t inner,
                   std::int64_t row) {
  for_each(stream, outer * inner * row,
           SwapOuter<From, To>{static_cast<const From*>(from), static_cast<To*>(to), outer, inner, row});
}

}  // namespace

void swap_outer(Stream stream, DType from_type, DType to_type, const void* from, void* to, std::int64_t outer,
                std::int64_t inner, std::int64_t row) {
  constexpr auto width = static_cast<std::int64_t>(sizeof(Vector<float>));
  const std::int64_t bytes = row * size_of(from_type);
  if (from_type == to_type && bytes % width == 0 &&
      are_aligned(static_cast<const std::byte*>(from), static_cast<const std::byte*>(to)))
    return swap_outer_by<Vector<float>, Vector<float>>(stream, from, to, outer, inner, bytes / width);
  with_type(from_type, [&]<typename From>(From) {
    with_type(to_type,
              [&]<typename To>(To) { swap_outer_by<From, To>(stream, from, to, outer, inner, row); });
  });
}

}  // namespace assay::cuda
