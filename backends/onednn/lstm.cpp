// LSTM over whole sequences in one parallel region: each thread computes all steps of its own samples, so
// that no step waits for another thread. oneDNN's own primitive computes each step for all samples.
#include <omp.h>

#include <algorithm>
#include <array>

#include "backends/onednn/loops/lstm.hpp"
#include "backends/onednn/lowering.hpp"
#include "backends/onednn/parallel.hpp"

namespace assay::onednn {
namespace {

// Divides a range of floats into parts, which begin at cache lines.
class Parts {
 public:
  std::int64_t take(std::int64_t floats) {
    const std::int64_t at = floats_;
    floats_ += (floats + line_floats - 1) / line_floats * line_floats;
    return at;
  }
  std::int64_t bytes() const { return floats_ * static_cast<std::int64_t>(sizeof(float)); }

 private:
  std::int64_t floats_ = 0;
};

LstmShape lstm_shape(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const bool narrow = request.inputs[0].dtype == DType::bf16;
  const LstmLoops& loops = lstm_loops(narrow);
  return {.samples = x[0],
          .steps = x[1],
          .features = x[2],
          .units = request.inputs[2].shape[1],
          .last = request.node.attributes.get<bool>("last"),
          .narrow = narrow,
          .lanes = loops.lanes,
          .pair = loops.pair};
}

// The share of `count` items of a thread of the current team.
struct Share {
  std::int64_t begin, end;
  explicit Share(std::int64_t count)
      : begin(count * omp_get_thread_num() / omp_get_num_threads()),
        end(count * (omp_get_thread_num() + 1) / omp_get_num_threads()) {}
};

// The offsets of the parts of a reserve.
struct Kept {
  std::int64_t gates, c, h, bytes;

  explicit Kept(const LstmShape& s) {
    Parts parts;
    gates = parts.take(s.steps * s.samples * s.gates());
    c = parts.take((s.steps + 1) * s.samples * s.group_units());
    h = parts.take((s.steps + 1) * s.samples * s.group_units() / s.pair);
    bytes = parts.bytes();
  }
  LstmReserve in(const LstmShape& s, void* storage) const {
    auto* floats = static_cast<float*>(storage);
    return {floats + gates, floats + c, floats + h, s.steps + 1, s.steps + 1};
  }
};

class LstmKernel final : public Kernel {
 public:
  LstmKernel(const LstmShape& shape, bool keep, int threads)
      : shape_(shape), kept_(shape), keep_(keep), threads_(threads) {
    x_weight_ = parts_.take(shape.gates() * shape.features);
    h_weight_ = parts_.take(shape.gates() * shape.units);
    bias_ = parts_.take(shape.gates());
    if (!keep) {
      c_ = parts_.take(shape.samples * shape.group_units());
      h_ = parts_.take(2 * shape.samples * shape.group_units());
    }
    for (int i = 0; i < threads; ++i)
      own_.push_back(parts_.take(lstm_loops(shape.narrow).forward_scratch(shape)));
  }
  std::int64_t scratch_bytes() const { return parts_.bytes(); }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    std::copy(inputs.begin(), inputs.end(), inputs_.begin());
    floats_ = static_cast<float*>(scratch);
    call_ = {shape_, floats_ + x_weight_, floats_ + h_weight_, floats_ + bias_, inputs_[0], outputs[0], {}};
    call_.reserve =
        keep_ ? kept_.in(shape_, outputs[1]) : LstmReserve{nullptr, floats_ + c_, floats_ + h_, 1, 2};
  }

  void run() override {
    const LstmLoops& loops = lstm_loops(shape_.narrow);
#pragma omp parallel num_threads(threads_)
    {
      const Share groups(shape_.group_units() / shape_.lanes);
      const auto pack = [&](const void* weight, bool narrow, std::int64_t columns, std::int64_t to) {
        loops.pack_forward(shape_, weight, narrow, columns, groups.begin, groups.end, floats_ + to);
      };
      pack(inputs_[1], shape_.narrow, shape_.features, x_weight_);
      pack(inputs_[2], shape_.narrow, shape_.units, h_weight_);
      pack(inputs_[3], false, 1, bias_);
#pragma omp barrier
      const Share samples(shape_.samples);
      const auto me = static_cast<std::size_t>(omp_get_thread_num());
      if (samples.begin < samples.end) loops.forward(call_, samples.begin, samples.end, floats_ + own_[me]);
    }
  }

 private:
  LstmShape shape_;
  Kept kept_;
  bool keep_;
  int threads_;
  Parts parts_;
  std::int64_t x_weight_ = 0, h_weight_ = 0, bias_ = 0, c_ = 0, h_ = 0;
  std::vector<std::int64_t> own_;  // by thread
  std::array<const void*, 4> inputs_{};
  float* floats_ = nullptr;
  LstmForward call_{};
};

class LstmGradientKernel final : public Kernel {
 public:
  LstmGradientKernel(const LstmShape& shape, int threads) : shape_(shape), kept_(shape), threads_(threads) {
    x_weight_ = parts_.take(shape.gates() * shape.padded(shape.features));
    h_weight_ = parts_.take(shape.gates() * shape.padded(shape.units));
    for (int i = 0; i < threads; ++i) {
      own_.push_back({parts_.take(lstm_loops(shape.narrow).backward_scratch(shape)),
                      parts_.take(shape.gates() * shape.padded(shape.features)),
                      parts_.take(shape.gates() * shape.padded(shape.units)), parts_.take(shape.gates())});
    }
  }
  std::int64_t scratch_bytes() const { return parts_.bytes(); }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    std::copy(inputs.begin(), inputs.end(), inputs_.begin());
    std::copy_n(outputs.begin(), results_.size(), results_.begin());
    floats_ = static_cast<float*>(scratch);
    call_ = {.shape = shape_,
             .x_weight = floats_ + x_weight_,
             .h_weight = floats_ + h_weight_,
             .x = inputs[0],
             .dy = inputs[4],
             .reserve = kept_.in(shape_, inputs[3]),
             .dx = outputs[3],
             .dx_weight = nullptr,
             .dh_weight = nullptr,
             .dbias = nullptr};
  }

  void run() override {
    const LstmLoops& loops = lstm_loops(shape_.narrow);
    const std::int64_t x_columns = shape_.padded(shape_.features), h_columns = shape_.padded(shape_.units);
#pragma omp parallel num_threads(threads_)
    {
      const auto pack = [&](const void* weight, std::int64_t columns, std::int64_t to) {
        const Share panels(shape_.padded(columns) / shape_.panel());
        loops.pack_backward(shape_, weight, shape_.narrow, columns, panels.begin, panels.end, floats_ + to);
      };
      pack(inputs_[1], shape_.features, x_weight_);
      pack(inputs_[2], shape_.units, h_weight_);
      const Own& own = own_[static_cast<std::size_t>(omp_get_thread_num())];
      std::fill_n(floats_ + own.dx_weight, shape_.gates() * x_columns, 0.0F);
      std::fill_n(floats_ + own.dh_weight, shape_.gates() * h_columns, 0.0F);
      std::fill_n(floats_ + own.dbias, shape_.gates(), 0.0F);
#pragma omp barrier
      const Share samples(shape_.samples);
      LstmBackward call = call_;
      call.dx_weight = floats_ + own.dx_weight;
      call.dh_weight = floats_ + own.dh_weight;
      call.dbias = floats_ + own.dbias;
      if (samples.begin < samples.end)
        loops.backward(call, samples.begin, samples.end, floats_ + own.scratch);
#pragma omp barrier
      const Share rows(4 * shape_.units);
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        write_row(row, &Own::dx_weight, x_columns, shape_.features, results_[0]);
        write_row(row, &Own::dh_weight, h_columns, shape_.units, results_[1]);
        write_row(row, &Own::dbias, 1, 1, results_[2]);
      }
    }
  }

 private:
  struct Own {
    std::int64_t scratch, dx_weight, dh_weight, dbias;
  };

  // Sums over the threads, and converts from the order of the panels to that of the contract.
  void write_row(std::int64_t row, std::int64_t Own::* part, std::int64_t stride, std::int64_t columns,
                 void* result) const {
    const std::int64_t unit = row % shape_.units, gate = row / shape_.units;
    const std::int64_t from =
        unit / shape_.lanes * shape_.panel() + gate * shape_.lanes + unit % shape_.lanes;
    float* to = static_cast<float*>(result) + row * columns;
    std::copy_n(floats_ + own_[0].*part + from * stride, columns, to);
    for (std::size_t i = 1; i < static_cast<std::size_t>(omp_get_num_threads()); ++i) {
      const float* more = floats_ + own_[i].*part + from * stride;
#pragma omp simd
      for (std::int64_t c = 0; c < columns; ++c) to[c] += more[c];
    }
  }

  LstmShape shape_;
  Kept kept_;
  int threads_;
  Parts parts_;
  std::int64_t x_weight_ = 0, h_weight_ = 0;
  std::vector<Own> own_;  // by thread
  std::array<const void*, 5> inputs_{};
  std::array<void*, 3> results_{};
  float* floats_ = nullptr;
  LstmBackward call_{};
};

// Everything has the contract's layout, except the reserve.
Lowered plain_lstm(const Request& request) {
  Lowered lowered = draft(request);
  for (std::size_t i = 0; i < request.node.inputs.size(); ++i) {
    if (request.has_input(i) && !request.graph.value(request.node.inputs[i]).opaque)
      lowered.inputs[i] = to_format(row_major(request.inputs[i]));
  }
  for (std::size_t o = 0; o < request.node.outputs.size(); ++o) {
    if (request.has_output(o) && !request.graph.value(request.node.outputs[o]).opaque)
      lowered.outputs[o] = to_format(row_major(request.outputs[o]));
  }
  return lowered;
}

template <typename K>
Lowered finish(Lowered lowered, std::unique_ptr<K> kernel) {
  lowered.scratch_bytes = kernel->scratch_bytes();
  lowered.kernel = std::move(kernel);
  return lowered;
}

Lowered lower_lstm(const Request& request) {
  const LstmShape shape = lstm_shape(request);
  Lowered lowered = plain_lstm(request);
  const bool keep = request.has_output(1);
  if (keep) lowered.outputs[1] = opaque_format(Kept(shape).bytes, row_major(request.inputs[0]));
  return finish(std::move(lowered), std::make_unique<LstmKernel>(shape, keep, request.context.threads));
}

Lowered lower_lstm_gradient(const Request& request) {
  return finish(plain_lstm(request),
                std::make_unique<LstmGradientKernel>(lstm_shape(request), request.context.threads));
}

}  // namespace

std::span<const OpEntry> lstm_ops() {
  static constexpr std::array entries{OpEntry{"lstm", lower_lstm},
                                      OpEntry{"lstm_gradient", lower_lstm_gradient}};
  return entries;
}

}  // namespace assay::onednn
