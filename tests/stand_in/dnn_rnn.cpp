// cuDNN's LSTM: one layer, one direction, sequences of one length. As cuDNN's, its parameters lie in an order of its
// own, with gaps; the workspace is overwritten, and the reserve, too, by the gradient of the data.
#include <array>
#include <cmath>
#include <limits>

#include "tests/stand_in/dnn.hpp"

using namespace assay::stand_in;

struct cudnnRNNStruct {
  cudnnRNNAlgo_t algorithm = CUDNN_RNN_ALGO_STANDARD;
  bool second_bias = false;
  Number number = Number::f32;
  std::int64_t features = 0, units = 0;

  bool persistent() const { return algorithm != CUDNN_RNN_ALGO_STANDARD; }
};

struct cudnnRNNDataStruct {
  Number number = Number::f32;
  bool step_major = false;
  std::int64_t steps = 0, samples = 0, width = 0;

  std::int64_t row(std::int64_t step, std::int64_t sample) const {
    return (step_major ? step * samples + sample : sample * steps + step) * width;
  }
  std::int64_t bytes() const { return steps * samples * width * size_of(number); }
};

namespace {

constexpr std::size_t gates = 4;  // input, forget, new memory, output
constexpr std::int64_t no_place = -1;

// Where the parts of the linear layers begin, in elements: layers 0 to 3 read x, 4 to 7 the state.
struct Packing {
  std::array<std::int64_t, 2 * gates> matrix{}, bias{};
  std::int64_t elements = 0;

  explicit Packing(const cudnnRNNStruct& s) {
    constexpr std::int64_t gap = 5;
    const auto add = [&](std::int64_t count) {
      const std::int64_t begin = elements + gap;
      elements = begin + count;
      return begin;
    };
    const auto add_biases = [&] {
      for (std::size_t layer = 0; layer < 2 * gates; ++layer)
        bias[layer] = layer < gates || s.second_bias ? add(s.units) : no_place;
    };
    if (!s.persistent()) add_biases();
    for (std::size_t gate = gates; gate-- > 0;) matrix[gates + gate] = add(s.units * s.units);
    for (std::size_t gate = 0; gate < gates; ++gate) matrix[gate] = add(s.units * s.features);
    if (s.persistent()) add_biases();
  }
};

std::int64_t reserve_bytes(const cudnnRNNStruct& s, const cudnnRNNDataStruct& x) {
  return x.steps * x.samples * 5 * s.units * size_of(Number::f32) + 100;
}
constexpr std::int64_t workspace_bytes = 1234;

struct Spaces {
  void *workspace = nullptr, *reserve = nullptr;
  std::int64_t reserve_bytes = 0;
};

// Of a call that is made for training.
cudnnStatus_t check(const cudnnRNNStruct& s, const cudnnRNNDataStruct& x, const cudnnRNNDataStruct& y,
                    std::size_t weight_size, std::size_t workspace_size, std::size_t reserve_size,
                    const Spaces& spaces, bool training) {
  if (x.steps != y.steps || x.samples != y.samples || x.step_major != y.step_major || x.width != s.features ||
      y.width != s.units || x.number != s.number || y.number != s.number)
    return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "the sequences do not fit");
  if (static_cast<std::int64_t>(weight_size) != Packing(s).elements * size_of(s.number) ||
      static_cast<std::int64_t>(workspace_size) < workspace_bytes ||
      (training && static_cast<std::int64_t>(reserve_size) < reserve_bytes(s, x)))
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "a space of the LSTM is too small");
  if (!is_aligned(spaces.workspace, 256) || !is_aligned(spaces.reserve, 256))
    return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a space of the LSTM is not aligned");
  return CUDNN_STATUS_SUCCESS;
}

std::vector<double> part(const void* base, Number number, std::int64_t begin, std::int64_t count) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(load(base, number, begin + i));
  return values;
}
std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

struct Weights {
  std::array<std::vector<double>, gates> x, h, bias;

  Weights(const cudnnRNNStruct& s, const void* base) {
    const Packing packing(s);
    for (std::size_t g = 0; g < gates; ++g) {
      x[g] = part(base, s.number, packing.matrix[g], s.units * s.features);
      h[g] = part(base, s.number, packing.matrix[gates + g], s.units * s.units);
      bias[g] = part(base, s.number, packing.bias[g], s.units);
      if (!s.second_bias) continue;
      const std::vector<double> more = part(base, s.number, packing.bias[gates + g], s.units);
      for (std::size_t j = 0; j < more.size(); ++j) bias[g][j] += more[j];
    }
  }
};

// The gates' values of a place and its cell; after the gradient of the data, what the gradient is by the sums that
// the gates are functions of.
class Reserve {
 public:
  Reserve(void* base, std::int64_t units, std::int64_t samples)
      : base_(static_cast<float*>(base)), units_(units), samples_(samples) {}
  float& gate(std::int64_t step, std::int64_t sample, std::size_t gate, std::int64_t unit) const {
    return base_[((step * samples_ + sample) * 5 + static_cast<std::int64_t>(gate)) * units_ + unit];
  }
  float& cell(std::int64_t step, std::int64_t sample, std::int64_t unit) const {
    return gate(step, sample, gates, unit);
  }

 private:
  float* base_;
  std::int64_t units_, samples_;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// sum of matrix[unit][i] * values[i]
double product(const std::vector<double>& matrix, std::int64_t unit, const std::vector<double>& values) {
  const double* const row = matrix.data() + static_cast<std::size_t>(unit) * values.size();
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += row[i] * values[i];
  return sum;
}

void forward(const cudnnRNNStruct& s, const cudnnRNNDataStruct& x_data, const void* x,
             const cudnnRNNDataStruct& y_data, void* y, const void* weights, const Spaces& spaces) {
  const Weights w(s, weights);
  const Reserve reserve(spaces.reserve, s.units, x_data.samples);
  for (std::int64_t n = 0; n < x_data.samples; ++n) {
    std::vector<double> h(at(s.units), 0.0), c(at(s.units), 0.0);
    for (std::int64_t t = 0; t < x_data.steps; ++t) {
      const std::vector<double> now = part(x, s.number, x_data.row(t, n), s.features), before = h;
      for (std::int64_t j = 0; j < s.units; ++j) {
        std::array<double, gates> value{};
        for (std::size_t g = 0; g < gates; ++g) {
          const double sum = product(w.x[g], j, now) + product(w.h[g], j, before) + w.bias[g][at(j)];
          value[g] = g == 2 ? std::tanh(sum) : sigmoid(sum);
        }
        c[at(j)] = value[1] * c[at(j)] + value[0] * value[2];
        store(y, s.number, y_data.row(t, n) + j, value[3] * std::tanh(c[at(j)]));
        h[at(j)] = load(y, s.number, y_data.row(t, n) + j);
        if (spaces.reserve_bytes == 0) continue;
        for (std::size_t g = 0; g < gates; ++g) reserve.gate(t, n, g, j) = static_cast<float>(value[g]);
        reserve.cell(t, n, j) = static_cast<float>(c[at(j)]);
      }
    }
  }
}

void backward_data(const cudnnRNNStruct& s, const cudnnRNNDataStruct& y_data, const void* dy,
                   const cudnnRNNDataStruct& x_data, void* dx, const void* weights, const Spaces& spaces) {
  const Weights w(s, weights);
  const Reserve reserve(spaces.reserve, s.units, x_data.samples);
  for (std::int64_t n = 0; n < x_data.samples; ++n) {
    std::vector<double> dh(at(s.units), 0.0), dc(at(s.units), 0.0);
    for (std::int64_t t = x_data.steps; t-- > 0;) {
      std::array<std::vector<double>, gates> ds;
      for (std::vector<double>& values : ds) values.resize(at(s.units));
      for (std::int64_t j = 0; j < s.units; ++j) {
        const auto gate = [&](std::size_t g) { return static_cast<double>(reserve.gate(t, n, g, j)); };
        const double i = gate(0), f = gate(1), g = gate(2), o = gate(3);
        const double bent = std::tanh(static_cast<double>(reserve.cell(t, n, j)));
        const double before = t == 0 ? 0 : static_cast<double>(reserve.cell(t - 1, n, j));
        const double dh_here = dh[at(j)] + load(dy, s.number, y_data.row(t, n) + j);
        const double dc_here = dc[at(j)] + dh_here * o * (1 - bent * bent);
        ds[0][at(j)] = dc_here * g * i * (1 - i);
        ds[1][at(j)] = dc_here * before * f * (1 - f);
        ds[2][at(j)] = dc_here * i * (1 - g * g);
        ds[3][at(j)] = dh_here * bent * o * (1 - o);
        dc[at(j)] = dc_here * f;
      }
      const auto back = [&](const std::array<std::vector<double>, gates>& matrices, std::int64_t width,
                            std::int64_t column) {
        double sum = 0;
        for (std::size_t g = 0; g < gates; ++g) {
          for (std::int64_t j = 0; j < s.units; ++j)
            sum += matrices[g][at(j * width + column)] * ds[g][at(j)];
        }
        return sum;
      };
      for (std::int64_t f = 0; f < s.features; ++f)
        store(dx, s.number, x_data.row(t, n) + f, back(w.x, s.features, f));
      for (std::int64_t j = 0; j < s.units; ++j) dh[at(j)] = back(w.h, s.units, j);
      for (std::int64_t j = 0; j < s.units; ++j) {
        for (std::size_t g = 0; g < gates; ++g) reserve.gate(t, n, g, j) = static_cast<float>(ds[g][at(j)]);
        // Read once more by the step before, and then gone.
        if (t + 1 < x_data.steps) reserve.cell(t + 1, n, j) = std::numeric_limits<float>::quiet_NaN();
      }
    }
    for (std::int64_t j = 0; j < s.units; ++j)
      reserve.cell(0, n, j) = std::numeric_limits<float>::quiet_NaN();
  }
}

void backward_weights(const cudnnRNNStruct& s, const cudnnRNNDataStruct& x_data, const void* x,
                      const cudnnRNNDataStruct& y_data, const void* y, void* dweights, const Spaces& spaces) {
  const Packing packing(s);
  const Reserve reserve(spaces.reserve, s.units, x_data.samples);
  const auto add = [&](std::int64_t place, double value) {
    store(dweights, s.number, place, load(dweights, s.number, place) + value);
  };
  // The sum over all places of the gradient, times what `other` says of the place.
  const auto sum = [&](std::size_t g, std::int64_t j, std::int64_t first, const auto& other) {
    double total = 0;
    for (std::int64_t t = first; t < x_data.steps; ++t) {
      for (std::int64_t n = 0; n < x_data.samples; ++n)
        total += static_cast<double>(reserve.gate(t, n, g, j)) * other(t, n);
    }
    return total;
  };
  for (std::size_t g = 0; g < gates; ++g) {
    for (std::int64_t j = 0; j < s.units; ++j) {
      const double of_bias = sum(g, j, 0, [](std::int64_t, std::int64_t) { return 1.0; });
      add(packing.bias[g] + j, of_bias);
      if (s.second_bias) add(packing.bias[gates + g] + j, of_bias);
      for (std::int64_t f = 0; f < s.features; ++f)
        add(packing.matrix[g] + j * s.features + f, sum(g, j, 0, [&](std::int64_t t, std::int64_t n) {
              return load(x, s.number, x_data.row(t, n) + f);
            }));
      for (std::int64_t u = 0; u < s.units; ++u)
        add(packing.matrix[gates + g] + j * s.units + u, sum(g, j, 1, [&](std::int64_t t, std::int64_t n) {
              return load(y, s.number, y_data.row(t - 1, n) + u);
            }));
    }
  }
}

double cost(const cudnnRNNStruct& s) { return s.algorithm == CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H ? 5 : 50; }

}  // namespace

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* rnn) { return create_description(rnn); }
cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t rnn) { return destroy_description(rnn); }
cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* data) {
  return create_description(data);
}
cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t data) {
  return destroy_description(data);
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t rnn, cudnnRNNAlgo_t algorithm,
                                       cudnnRNNMode_t cell, cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t input,
                                       cudnnDataType_t type, cudnnDataType_t math, cudnnMathType_t,
                                       std::int32_t features, std::int32_t units, std::int32_t projected,
                                       std::int32_t layers, cudnnDropoutDescriptor_t, std::uint32_t) {
  if (cell != CUDNN_LSTM || direction != CUDNN_UNIDIRECTIONAL || input != CUDNN_LINEAR_INPUT ||
      !is_known(type) || math != CUDNN_DATA_FLOAT || projected != units || layers != 1 ||
      (bias != CUDNN_RNN_SINGLE_INP_BIAS && bias != CUDNN_RNN_DOUBLE_BIAS))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "an RNN that the stand-in does not have");
  *rnn = {algorithm, bias == CUDNN_RNN_DOUBLE_BIAS, number_of(type), features, units};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t data, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int steps, int samples, int width,
                                        const int lengths[], void*) {
  if (layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED || !is_known(type))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "sequences that the stand-in does not have");
  for (int n = 0; n < samples; ++n) {
    if (lengths[n] != steps) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "sequences of several lengths");
  }
  *data = {number_of(type), layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, steps, samples, width};
  return CUDNN_STATUS_SUCCESS;
}

// As cuDNN 9.19 on an H200: the persistent algorithms only in f32, the one for few units only with a second bias.
cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                        std::size_t* workspace, std::size_t* reserve) {
  if (handle == nullptr) return refuse(CUDNN_STATUS_BAD_PARAM, "no handle");
  if (rnn->persistent() && (rnn->number == Number::bf16 || !rnn->second_bias || !x->step_major))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the algorithm does not have this LSTM");
  *workspace = static_cast<std::size_t>(workspace_bytes);
  *reserve = mode == CUDNN_FWD_MODE_TRAINING ? static_cast<std::size_t>(reserve_bytes(*rnn, *x)) : 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t, cudnnRNNDescriptor_t rnn, std::size_t* bytes) {
  *bytes = static_cast<std::size_t>(Packing(*rnn).elements * size_of(rnn->number));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t, cudnnRNNDescriptor_t rnn, std::int32_t layer,
                                      std::size_t bytes, const void* weights, std::int32_t linear,
                                      cudnnTensorDescriptor_t matrix, void** matrix_address,
                                      cudnnTensorDescriptor_t bias, void** bias_address) {
  const Packing packing(*rnn);
  if (weights == nullptr || layer != 0 || linear < 0 || linear >= static_cast<std::int32_t>(2 * gates) ||
      static_cast<std::int64_t>(bytes) != packing.elements * size_of(rnn->number))
    return refuse(CUDNN_STATUS_BAD_PARAM, "no such part of the parameters");
  const auto l = static_cast<std::size_t>(linear);
  const auto address = [&](std::int64_t element) -> void* {
    if (element == no_place) return nullptr;
    return const_cast<std::byte*>(static_cast<const std::byte*>(weights)) + element * size_of(rnn->number);
  };
  const std::int64_t width = l < gates ? rnn->features : rnn->units;
  matrix->shaped = {rnn->number, {1, rnn->units, width}, {rnn->units * width, width, 1}};
  bias->shaped = {rnn->number, {1, rnn->units, 1}, {rnn->units, 1, 1}};
  *matrix_address = address(packing.matrix[l]);
  *bias_address = address(packing.bias[l]);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnForwardMode_t mode,
                              const std::int32_t[], cudnnRNNDataDescriptor_t x_data, const void* x,
                              cudnnRNNDataDescriptor_t y_data, void* y, cudnnTensorDescriptor_t,
                              const void* hx, void* hy, cudnnTensorDescriptor_t, const void* cx, void* cy,
                              std::size_t weight_size, const void* weights, std::size_t workspace_size,
                              void* workspace, std::size_t reserve_size, void* reserve) {
  if (hx != nullptr || hy != nullptr || cx != nullptr || cy != nullptr)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "states that the stand-in does not have");
  const bool training = mode == CUDNN_FWD_MODE_TRAINING;
  const Spaces spaces{workspace, reserve, training ? reserve_bytes(*rnn, *x_data) : 0};
  if (const cudnnStatus_t status =
          check(*rnn, *x_data, *y_data, weight_size, workspace_size, reserve_size, spaces, training);
      status != CUDNN_STATUS_SUCCESS)
    return status;
  enqueue(handle->stream, [=, s = *rnn, from = *x_data, to = *y_data] {
    constexpr const char* user = "cudnnRNNForward";
    machine().microseconds += cost(s);
    if (!check_range(x, from.bytes(), user) || !check_range(y, to.bytes(), user) ||
        !check_range(weights, static_cast<std::int64_t>(weight_size), user) ||
        !check_range(reserve, spaces.reserve_bytes, user))
      return;
    spoil_workspace(workspace, workspace_bytes, user);
    forward(s, from, x, to, y, weights, spaces);
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, const std::int32_t[],
                                      cudnnRNNDataDescriptor_t y_data, const void* y, const void* dy,
                                      cudnnRNNDataDescriptor_t x_data, void* dx, cudnnTensorDescriptor_t,
                                      const void* hx, const void* dhy, void* dhx, cudnnTensorDescriptor_t,
                                      const void* cx, const void* dcy, void* dcx, std::size_t weight_size,
                                      const void* weights, std::size_t workspace_size, void* workspace,
                                      std::size_t reserve_size, void* reserve) {
  for (const void* state : {hx, dhy, static_cast<const void*>(dhx), cx, dcy, static_cast<const void*>(dcx)}) {
    if (state != nullptr) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "states that the stand-in does not have");
  }
  const Spaces spaces{workspace, reserve, reserve_bytes(*rnn, *x_data)};
  if (const cudnnStatus_t status =
          check(*rnn, *x_data, *y_data, weight_size, workspace_size, reserve_size, spaces, true);
      status != CUDNN_STATUS_SUCCESS)
    return status;
  enqueue(handle->stream, [=, s = *rnn, from = *y_data, to = *x_data] {
    constexpr const char* user = "cudnnRNNBackwardData_v8";
    machine().microseconds += cost(s);
    if (!check_range(y, from.bytes(), user) || !check_range(dy, from.bytes(), user) ||
        !check_range(dx, to.bytes(), user) || !check_range(reserve, spaces.reserve_bytes, user) ||
        !check_range(weights, static_cast<std::int64_t>(weight_size), user))
      return;
    spoil_workspace(workspace, workspace_bytes, user);
    backward_data(s, from, dy, to, dx, weights, spaces);
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                         cudnnWgradMode_t mode, const std::int32_t[],
                                         cudnnRNNDataDescriptor_t x_data, const void* x,
                                         cudnnTensorDescriptor_t, const void* hx,
                                         cudnnRNNDataDescriptor_t y_data, const void* y,
                                         std::size_t weight_size, void* dweights, std::size_t workspace_size,
                                         void* workspace, std::size_t reserve_size, void* reserve) {
  if (mode != CUDNN_WGRAD_MODE_ADD || hx != nullptr)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "cuDNN only adds gradients of weights");
  const Spaces spaces{workspace, reserve, reserve_bytes(*rnn, *x_data)};
  if (const cudnnStatus_t status =
          check(*rnn, *x_data, *y_data, weight_size, workspace_size, reserve_size, spaces, true);
      status != CUDNN_STATUS_SUCCESS)
    return status;
  enqueue(handle->stream, [=, s = *rnn, from = *x_data, result = *y_data] {
    constexpr const char* user = "cudnnRNNBackwardWeights_v8";
    machine().microseconds += cost(s);
    if (!check_range(x, from.bytes(), user) || !check_range(y, result.bytes(), user) ||
        !check_range(dweights, static_cast<std::int64_t>(weight_size), user) ||
        !check_range(reserve, spaces.reserve_bytes, user))
      return;
    spoil_workspace(workspace, workspace_bytes, user);
    backward_weights(s, from, x, result, y, dweights, spaces);
  });
  return CUDNN_STATUS_SUCCESS;
}
