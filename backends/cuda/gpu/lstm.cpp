#include "backends/cuda/gpu/lstm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "backends/cuda/choices.hpp"
#include "backends/cuda/engine_search.hpp"
#include "backends/cuda/gpu/check.hpp"
#include "backends/cuda/gpu/cudnn.hpp"
#include "backends/cuda/lowering.hpp"
#include "backends/cuda/own_lstm.hpp"
#include "backends/cuda/workspace.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {
namespace {

using Network = Descriptor<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor>;
using Sequences =
    Descriptor<cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor>;

// How cuDNN is asked for its LSTM.
struct Form {
  cudnnRNNAlgo_t algorithm;
  const char* name;
  bool step_major;   // its sequences are (steps, samples, width), and ours (samples, steps, width)
  bool second_bias;  // of the state, which is zero here
  bool wide;         // bf16 operands are widened to f32, whose products are TF32: each bf16 is a TF32 number
};
constexpr Form standard{CUDNN_RNN_ALGO_STANDARD, "standard", false, false, false};
// All steps in one kernel, with the recurrent weights in registers. cuDNN 9.19 has the first only with a second bias,
// and not in bf16; PyTorch takes it for up to 128 units (use_rnn_persist_small_h), with fp16 in its bf16.
constexpr std::int64_t max_persistent_units = 128;
constexpr Form others[] = {
    {CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, "persistent_small", true, true, false},
    {CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, "persistent_small_f32", true, true, true},
    {CUDNN_RNN_ALGO_PERSIST_STATIC, "persistent", true, true, false},
    {CUDNN_RNN_ALGO_STANDARD, "standard_step_major", true, false, false},
};

// What the name of an LSTM begins with; the bytes of its workspace follow.
std::string prefix_of(const Form& form) { return fmt::format("cudnn:lstm:{}:workspace", form.name); }

// Of cuDNN's operands.
DType type_in(const Form& form, const LstmSpec& spec) { return form.wide ? DType::f32 : spec.operands; }

// An LSTM as cuDNN describes it. Needs no device.
struct Description {
  Network network;
  Sequences x, y;
  TensorDescriptor state;

  Description(const LstmSpec& s, const Form& form) {
    const bool narrow = type_in(form, s) == DType::bf16;
    const cudnnDataType_t type = narrow ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    // Strict fp32 uses only FMA; the default may round the operands to TF32.
    const cudnnMathType_t math = narrow                ? CUDNN_TENSOR_OP_MATH
                                 : s.tf32 || form.wide ? CUDNN_DEFAULT_MATH
                                                       : CUDNN_FMA_MATH;
    constexpr std::size_t first_with_bf16 = 91300;
    if (narrow && cudnnGetVersion() < first_with_bf16)
      throw Unsupported(fmt::format("[lstm] bf16 needs cuDNN 9.13, and this is {}", cudnnGetVersion()));
    ASSAY_CUDNN(cudnnSetRNNDescriptor_v8(
        network.get(), form.algorithm, CUDNN_LSTM,
        form.second_bias ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_SINGLE_INP_BIAS, CUDNN_UNIDIRECTIONAL,
        CUDNN_LINEAR_INPUT, type, CUDNN_DATA_FLOAT, math, static_cast<std::int32_t>(s.features),
        static_cast<std::int32_t>(s.units), static_cast<std::int32_t>(s.units), 1, nullptr,
        CUDNN_RNN_PADDED_IO_ENABLED));
    const auto layout = form.step_major ? CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED
                                        : CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;
    const std::vector<int> lengths(static_cast<std::size_t>(s.samples), static_cast<int>(s.steps));
    const auto describe = [&](const Sequences& sequences, std::int64_t width) {
      ASSAY_CUDNN(cudnnSetRNNDataDescriptor(sequences.get(), type, layout, static_cast<int>(s.steps),
                                            static_cast<int>(s.samples), static_cast<int>(width),
                                            lengths.data(), nullptr));
    };
    describe(x, s.features);
    describe(y, s.units);
    const int size[] = {1, static_cast<int>(s.samples), static_cast<int>(s.units)};
    const int stride[] = {size[1] * size[2], size[2], 1};
    ASSAY_CUDNN(cudnnSetTensorNdDescriptor(state.get(), type, 3, size, stride));
  }
};

// The reserve: cuDNN's own, the packed parameters, y of all steps and, if step-major, x, which the gradients read.
class CudnnLstm final : public Lstm {
 public:
  CudnnLstm(const LstmSpec& spec, const Form& form, cudnnHandle_t handle, cudaStream_t stream, Calls& calls)
      : s_(spec),
        form_(form),
        handle_(handle),
        stream_(stream),
        type_(type_in(form, spec)),
        element_(size_of(type_)),
        described_(spec, form) {
    lay_out();
    find_parameters();
    if (s_.bare && s_.operands != DType::f32) prepare_conversions(calls);
  }

  std::int64_t reserve_bytes() const override { return reserve_.bytes(); }
  std::int64_t forward_workspace_bytes() const override {
    return static_cast<std::int64_t>(workspace_bytes_);
  }
  std::int64_t gradient_workspace_bytes() const override { return gradient_.bytes(); }
  std::string name() const override {
    return fmt::format("{}{}{}", prefix_of(form_), workspace_bytes_, measured_ ? ":measured" : "");
  }
  // It was the fastest of those that are right.
  void set_measured(bool measured = true) { measured_ = measured; }

  void forward(const LstmOperands& in, void* y, void* reserve, void* workspace) override {
    check_workspace("cudnn", reserve, reserve_bytes());
    check_workspace("cudnn", workspace, forward_workspace_bytes());
    void *const packed = at(reserve, packed_), *const all = at(reserve, y_);
    if (form_.second_bias) ASSAY_CUDA(cudaMemsetAsync(packed, 0, parameter_bytes_, stream_));
    if (s_.bare)
      copy_parameters(in, packed, at(reserve, bias_));
    else
      pack_lstm({stream_}, s_.operands, type_, packing_, in, packed);
    if (form_.step_major)
      swap_outer({stream_}, s_.operands, type_, in.x, at(reserve, x_steps_), s_.samples, s_.steps,
                 s_.features);
    ASSAY_CUDNN(cudnnRNNForward(handle_, described_.network.get(), mode(), nullptr, described_.x.get(),
                                x_of(in, reserve), described_.y.get(), all, described_.state.get(), nullptr,
                                nullptr, described_.state.get(), nullptr, nullptr, parameter_bytes_, packed,
                                workspace_bytes_, workspace, reserve_bytes_, at(reserve, own_)));
    const std::int64_t row = s_.units * element_;
    if (s_.last && form_.step_major) {
      swap_outer({stream_}, type_, s_.operands, at(all, (s_.steps - 1) * s_.samples * row), y, 1, s_.samples,
                 s_.units);
    } else if (s_.last) {
      copy_rows(y, row, at(all, (s_.steps - 1) * row), s_.steps * row);
    } else if (form_.step_major) {
      swap_outer({stream_}, type_, s_.operands, all, y, s_.steps, s_.samples, s_.units);
    } else {
      copy(y, all, static_cast<std::int64_t>(bytes_of_y()));
    }
  }

  void gradient(const LstmOperands& in, const void* dy, void* reserve, const LstmGradients& to,
                void* workspace) override {
    check_workspace("cudnn", reserve, reserve_bytes());
    check_workspace("cudnn", workspace, gradient_workspace_bytes());
    void *const packed = at(reserve, packed_), *const all = at(reserve, y_), *const own = at(reserve, own_);
    void *const space = at(workspace, space_), *const dparameters = at(workspace, dparameters_);
    const std::int64_t row = s_.units * element_;
    void* const spread = at(workspace, dy_);
    if (s_.last) {
      ASSAY_CUDA(cudaMemsetAsync(spread, 0, bytes_of_y(), stream_));
      if (form_.step_major)
        swap_outer({stream_}, s_.operands, type_, dy, at(spread, (s_.steps - 1) * s_.samples * row), 1,
                   s_.samples, s_.units);
      else
        copy_rows(at(spread, (s_.steps - 1) * row), s_.steps * row, dy, row);
      dy = spread;
    } else if (form_.step_major) {
      swap_outer({stream_}, s_.operands, type_, dy, spread, s_.samples, s_.steps, s_.units);
      dy = spread;
    }
    void* const dx = to.dx != nullptr && !form_.step_major ? to.dx : at(workspace, dx_);
    ASSAY_CUDNN(cudnnRNNBackwardData_v8(
        handle_, described_.network.get(), nullptr, described_.y.get(), all, dy, described_.x.get(), dx,
        described_.state.get(), nullptr, nullptr, nullptr, described_.state.get(), nullptr, nullptr, nullptr,
        parameter_bytes_, packed, workspace_bytes_, space, reserve_bytes_, own));
    if (to.dx != nullptr && form_.step_major)
      swap_outer({stream_}, type_, s_.operands, dx, to.dx, s_.steps, s_.samples, s_.features);
    // cuDNN can only add to the result.
    ASSAY_CUDA(cudaMemsetAsync(dparameters, 0, parameter_bytes_, stream_));
    ASSAY_CUDNN(cudnnRNNBackwardWeights_v8(handle_, described_.network.get(), CUDNN_WGRAD_MODE_ADD, nullptr,
                                           described_.x.get(), x_of(in, reserve), described_.state.get(),
                                           nullptr, described_.y.get(), all, parameter_bytes_, dparameters,
                                           workspace_bytes_, space, reserve_bytes_, own));
    if (s_.bare)
      copy_gradients(dparameters, at(workspace, wide_), to);
    else
      unpack_lstm({stream_}, type_, packing_, dparameters, to);
  }

 private:
  static void* at(void* base, std::int64_t offset) { return static_cast<std::byte*>(base) + offset; }
  cudnnForwardMode_t mode() const { return s_.training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE; }
  const void* x_of(const LstmOperands& in, void* reserve) const {
    return form_.step_major ? at(reserve, x_steps_) : in.x;
  }
  std::size_t bytes_of_y() const { return static_cast<std::size_t>(s_.places() * s_.units * element_); }

  // One row of y per sample.
  void copy_rows(void* to, std::int64_t to_pitch, const void* from, std::int64_t from_pitch) const {
    ASSAY_CUDA(cudaMemcpy2DAsync(to, static_cast<std::size_t>(to_pitch), from,
                                 static_cast<std::size_t>(from_pitch),
                                 static_cast<std::size_t>(s_.units * element_),
                                 static_cast<std::size_t>(s_.samples), cudaMemcpyDeviceToDevice, stream_));
  }

  // Of one gate: its rows of the matrices and of the bias, each in one piece there and here.
  template <typename Body>
  void for_each_part(const Body& body) const {
    const std::int64_t of_weight = s_.units * s_.features, of_recurrent = s_.units * s_.units;
    for (std::size_t gate = 0; gate < 4; ++gate) {
      const auto g = static_cast<std::int64_t>(gate);
      body(Part::weight, packing_.weight[gate], g * of_weight, of_weight);
      body(Part::recurrent, packing_.recurrent[gate], g * of_recurrent, of_recurrent);
      body(Part::bias, packing_.bias[gate], g * s_.units, s_.units);
    }
  }

  // As pack_lstm(), by the CUDA runtime and cuDNN. narrow_bias: room for the bias in the type of the
  // operands.
  void copy_parameters(const LstmOperands& in, void* packed, void* narrow_bias) {
    const void* bias = in.bias;
    if (narrow_call_.run) {
      call(narrow_call_, const_cast<float*>(in.bias), narrow_bias);
      bias = narrow_bias;
    }
    for_each_part([&](Part part, std::int64_t there, std::int64_t here, std::int64_t count) {
      const void* from = part == Part::weight ? in.weight : part == Part::recurrent ? in.recurrent : bias;
      copy(at(packed, there * element_), static_cast<const std::byte*>(from) + here * element_,
           count * element_);
    });
  }

  // As unpack_lstm(). wide: room for all gradients as f32.
  void copy_gradients(void* packed, void* wide, const LstmGradients& to) {
    const void* from = packed;
    if (widen_call_.run) {
      call(widen_call_, packed, wide);
      from = wide;
    }
    for_each_part([&](Part part, std::int64_t there, std::int64_t here, std::int64_t count) {
      float* const target = part == Part::weight      ? to.weight
                            : part == Part::recurrent ? to.recurrent
                                                      : to.bias;
      copy(target + here, static_cast<const float*>(from) + there, count * size_of(DType::f32));
    });
  }

  void copy(void* to, const void* from, std::int64_t bytes) const {
    ASSAY_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream_));
  }

  // A conversion: the larger of x and x, in another type.
  static void call(const Call& conversion, void* from, void* to) {
    void* const both[] = {from, from};
    conversion.run(both, {&to, 1}, nullptr);
  }
  static Call conversion(Calls& calls, std::int64_t count, DType from, DType to) {
    const TensorSpec x = packed(from, {1, count});
    return calls.binary(Binary::maximum, 1, x, 1, x, packed(to, {1, count}));
  }
  void prepare_conversions(Calls& calls) {
    const std::int64_t parameters = static_cast<std::int64_t>(parameter_bytes_) / element_;
    narrow_call_ = conversion(calls, s_.gates(), DType::f32, s_.operands);
    bias_ = reserve_.add(s_.gates() * element_);
    if (!s_.training) return;
    widen_call_ = conversion(calls, parameters, s_.operands, DType::f32);
    wide_ = gradient_.add(parameters * size_of(DType::f32));
  }

  void lay_out() {
    ASSAY_CUDNN(cudnnGetRNNTempSpaceSizes(handle_, described_.network.get(), mode(), described_.x.get(),
                                          &workspace_bytes_, &reserve_bytes_));
    ASSAY_CUDNN(cudnnGetRNNWeightSpaceSize(handle_, described_.network.get(), &parameter_bytes_));
    own_ = reserve_.add(static_cast<std::int64_t>(reserve_bytes_));
    packed_ = reserve_.add(static_cast<std::int64_t>(parameter_bytes_));
    y_ = reserve_.add(static_cast<std::int64_t>(bytes_of_y()));
    x_steps_ = reserve_.add(form_.step_major ? s_.places() * s_.features * element_ : 0);
    if (!s_.training) return;
    space_ = gradient_.add(static_cast<std::int64_t>(workspace_bytes_));
    dparameters_ = gradient_.add(static_cast<std::int64_t>(parameter_bytes_));
    dy_ = gradient_.add(s_.last || form_.step_major ? static_cast<std::int64_t>(bytes_of_y()) : 0);
    dx_ = gradient_.add(s_.places() * s_.features * element_);
  }

  // cuDNN's "linear layers": 0 to 3 read x, 4 to 7 the state. Each four are in the order input, forget, new
  // memory, output, as ours. It only computes addresses: those in a buffer that is not there give the offsets.
  // The buffer does not begin at 0, because a null address means that the part is missing.
  void find_parameters() {
    packing_.units = s_.units;
    packing_.features = s_.features;
    auto* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
    const TensorDescriptor matrix, vector;
    for (std::size_t gate = 0; gate < 4; ++gate) {
      void *weight = nullptr, *recurrent = nullptr, *bias = nullptr, *second_bias = nullptr;
      ASSAY_CUDNN(cudnnGetRNNWeightParams(handle_, described_.network.get(), 0, parameter_bytes_, base,
                                          static_cast<std::int32_t>(gate), matrix.get(), &weight,
                                          vector.get(), &bias));
      ASSAY_CUDNN(cudnnGetRNNWeightParams(handle_, described_.network.get(), 0, parameter_bytes_, base,
                                          static_cast<std::int32_t>(gate) + 4, matrix.get(), &recurrent,
                                          vector.get(), &second_bias));
      if (second_bias != nullptr && !form_.second_bias)
        throw std::runtime_error("[lstm] cuDNN has a second bias where a single one was asked for");
      const auto elements_at = [&](const void* address) {
        return (static_cast<const std::byte*>(address) - base) / element_;
      };
      packing_.weight[gate] = elements_at(weight);
      packing_.recurrent[gate] = elements_at(recurrent);
      packing_.bias[gate] = elements_at(bias);
    }
    check_packing(packing_, static_cast<std::int64_t>(parameter_bytes_) / element_);
  }

  enum class Part : std::uint8_t { weight, recurrent, bias };

  LstmSpec s_;
  Form form_;
  cudnnHandle_t handle_;
  cudaStream_t stream_;
  bool measured_ = false;
  DType type_;            // of cuDNN's operands
  std::int64_t element_;  // its bytes
  Description described_;
  std::size_t workspace_bytes_ = 0, reserve_bytes_ = 0, parameter_bytes_ = 0;  // as cuDNN reports
  LstmPacking packing_;
  Scratch reserve_, gradient_;
  std::int64_t own_ = 0, packed_ = 0, y_ = 0, x_steps_ = 0, bias_ = 0;     // in the reserve
  std::int64_t space_ = 0, dparameters_ = 0, dy_ = 0, dx_ = 0, wide_ = 0;  // in the gradient's workspace
  Call narrow_call_, widen_call_;  // of a bare LSTM in bf16, else empty
};

// Runs forms of one LSTM on the same noise, in buffers from `trial`. Borrows all.
class LstmTrial {
 public:
  LstmTrial(const LstmSpec& spec, const Target& target, Memory& trial)
      : s_(spec), target_(target), trial_(trial) {
    // Weights as layers begin with: with larger ones, rounding errors grow from step to step without bound.
    const auto scale = [](std::int64_t width) { return 1 / std::sqrt(static_cast<float>(width)); };
    operands_ = {noise(s_.places() * s_.features, s_.operands),
                 noise(s_.gates() * s_.features, s_.operands, scale(s_.features)),
                 noise(s_.gates() * s_.units, s_.operands, scale(s_.units)),
                 static_cast<const float*>(noise(s_.gates(), DType::f32, scale(s_.units)))};
    const std::int64_t of_y = (s_.last ? s_.samples : s_.places()) * s_.units;
    y_ = result(of_y, s_.operands);
    if (!s_.training) return;
    dy_ = noise(of_y, s_.operands);
    const auto of_parameters = [&](std::int64_t elements) {
      return static_cast<float*>(result(elements, DType::f32));
    };
    gradients_ = {result(s_.places() * s_.features, s_.operands), of_parameters(s_.gates() * s_.features),
                  of_parameters(s_.gates() * s_.units), of_parameters(s_.gates())};
  }

  // Of both passes, or of the first where there is no second.
  double seconds(Lstm& lstm) {
    const Spaces spaces(lstm, s_, trial_);
    return captured_seconds(target_, [&] { run(lstm, spaces); }, 1);
  }

  // Takes the results of this form as the right ones.
  void expect(Lstm& lstm) {
    run_once(lstm);
    for (const Result& result : results_) {
      expected_.emplace_back(trial_, result.bytes(), purpose);
      trial_.copy(expected_.back().data(), result.data, result.bytes());
    }
  }
  // The largest relative distance of a result from the right one.
  double error(Lstm& lstm) {
    run_once(lstm);
    double largest = 0;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const double distance = relative_distance(Stream{target_.stream}, trial_, results_[i].dtype,
                                                results_[i].data, expected_[i].data(), results_[i].elements);
      if (!(distance <= largest)) largest = distance;  // not a number stays
    }
    return largest;
  }

 private:
  static constexpr const char* purpose = "the search of an LSTM's algorithm";
  struct Result {
    void* data;
    std::int64_t elements;
    DType dtype;
    std::int64_t bytes() const { return elements * size_of(dtype); }
  };
  // What a form needs for itself.
  struct Spaces {
    Spaces(Lstm& lstm, const LstmSpec& spec, Memory& trial)
        : reserve(trial, lstm.reserve_bytes(), purpose),
          forward(trial, lstm.forward_workspace_bytes(), purpose) {
      if (spec.training) backward = Storage(trial, lstm.gradient_workspace_bytes(), purpose);
    }
    Storage reserve, forward, backward;
  };

  void* noise(std::int64_t elements, DType dtype, float scale = 1) {
    kept_.emplace_back(trial_, elements * size_of(dtype), purpose);
    fill_with_noise(trial_, kept_.back().data(), elements * size_of(dtype), dtype,
                    static_cast<std::uint32_t>(kept_.size()), scale);
    return kept_.back().data();
  }
  void* result(std::int64_t elements, DType dtype) {
    kept_.emplace_back(trial_, elements * size_of(dtype), purpose);
    results_.push_back({kept_.back().data(), elements, dtype});
    return kept_.back().data();
  }
  void run(Lstm& lstm, const Spaces& spaces) {
    lstm.forward(operands_, y_, spaces.reserve.data(), spaces.forward.data());
    if (s_.training) lstm.gradient(operands_, dy_, spaces.reserve.data(), gradients_, spaces.backward.data());
  }
  void run_once(Lstm& lstm) {
    const Spaces spaces(lstm, s_, trial_);
    for (const Result& result : results_) trial_.clear(result.data, result.bytes());
    run(lstm, spaces);
  }

  const LstmSpec& s_;
  const Target& target_;
  Memory& trial_;
  std::vector<Storage> kept_;
  std::vector<Result> results_;
  std::vector<Storage> expected_;
  LstmOperands operands_;
  void *y_ = nullptr, *dy_ = nullptr;
  LstmGradients gradients_;
};

// The fastest of the forms that this cuDNN runs here, `usual` among them, which is the right one, and of our own.
std::unique_ptr<Lstm> fastest(std::unique_ptr<CudnnLstm> usual, const LstmSpec& spec, const Target& target,
                              Memory& trial, Calls& calls, const MakeLstm& make_own) {
  // A step hands its rounding errors to the next; some forms keep the state of bf16 operands in f32.
  const double allowed = (spec.operands == DType::bf16 ? 16 : 4) *
                         allowed_error(spec.operands, spec.operands, spec.tf32, spec.places());
  usual->set_measured();
  std::unique_ptr<Lstm> best = std::move(usual);
  try {
    LstmTrial forms(spec, target, trial);
    forms.expect(*best);
    double least = forms.seconds(*best);
    const auto try_one = [&](const char* form, const auto& make) {
      try {
        std::unique_ptr<Lstm> lstm = make();
        if (lstm == nullptr) return;
        const double seconds = forms.seconds(*lstm);
        if (seconds >= least) return;
        if (const double error = forms.error(*lstm); !(error <= allowed))
          return target.choices->refuse(lstm->name(), text_of(spec), error, allowed);
        least = seconds;
        best = std::move(lstm);
      } catch (const Unsupported&) {
      } catch (const OutOfMemory&) {
        throw;
      } catch (const std::runtime_error& error) {
        fmt::print(stderr, "[lstm] the form {} is left out: {}\n", form, error.what());
      }
    };
    for (const Form& form : others) {
      if (form.wide && spec.operands == DType::f32) continue;
      try_one(form.name, [&] {
        auto lstm = std::make_unique<CudnnLstm>(spec, form, target.handle, target.stream, calls);
        lstm->set_measured();
        return lstm;
      });
    }
    try {
      try_one("of our own", make_own);
    } catch (const OutOfMemory& error) {
      fmt::print(stderr, "[lstm] our own is not tried: {}\n", error.what());
    }
  } catch (const OutOfMemory& error) {
    if (auto* const form = dynamic_cast<CudnnLstm*>(best.get())) form->set_measured(false);
    fmt::print(stderr, "[lstm] {} is taken without further measurements: {}\n", best->name(), error.what());
  }
  return best;
}

// The form that an earlier search chose; null without one.
std::unique_ptr<Lstm> given_form(const LstmSpec& spec, const Target& target, Calls& calls,
                                 const MakeLstm& make_own) {
  const std::string name = target.choices->given(text_of(spec));
  if (name.starts_with("own:")) {
    auto own = make_own();
    if (own == nullptr || own->name() != name) return nullptr;
    target.choices->reuse();
    return own;
  }
  const auto is_given = [&](const Form& form) { return name.starts_with(prefix_of(form)); };
  const auto* const form = std::ranges::find_if(others, is_given);
  if (!is_given(standard) && form == std::ranges::end(others)) return nullptr;
  try {
    auto lstm = std::make_unique<CudnnLstm>(spec, is_given(standard) ? standard : *form, target.handle,
                                            target.stream, calls);
    lstm->set_measured();
    target.choices->reuse();
    return lstm;
  } catch (const Unsupported& error) {
    fmt::print(stderr, "[lstm] {} is searched again: {}\n", name, error.what());
    return nullptr;
  }
}

}  // namespace

std::vector<std::string> lstm_forms(const LstmSpec& spec) {
  std::vector<std::string> names;
  const auto add = [&](const Form& form) {
    if (form.wide && spec.operands == DType::f32) return;
    try {
      Description(spec, form);
      names.emplace_back(form.name);
    } catch (const Unsupported&) {
    }
  };
  add(standard);
  std::ranges::for_each(others, add);
  return names;
}

std::unique_ptr<Lstm> make_fast_lstm(const LstmSpec& spec, const Target& target, Memory& trial, Calls& calls,
                                     const MakeLstm& make_own) {
  const bool is_searched = !spec.bare && !spec.deterministic && spec.units <= max_persistent_units;
  if (is_searched)
    if (auto chosen = given_form(spec, target, calls, make_own)) return chosen;
  std::unique_ptr<CudnnLstm> usual;
  try {
    usual = std::make_unique<CudnnLstm>(spec, standard, target.handle, target.stream, calls);
  } catch (const Unsupported& missing) {
    if (spec.bare) throw;
    fmt::print(stderr,
               "[lstm] cuDNN {} has no LSTM for {} samples, {} steps, {} features, {} units, {}: {}. Our own "
               "runs\n",
               cudnnGetVersion(), spec.samples, spec.steps, spec.features, spec.units,
               to_string(spec.operands), missing.what());
    return nullptr;
  }
  if (!is_searched) return usual;
  return fastest(std::move(usual), spec, target, trial, calls, make_own);
}

}  // namespace assay::cuda
