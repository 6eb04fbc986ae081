// Layer norm and RMS norm over the last dimension, and their gradients: a row is read once, and stays in the
// first cache while it is computed.
#include <omp.h>

#include <algorithm>

#include "backends/onednn/loops/loops.hpp"
#include "backends/onednn/lowering.hpp"
#include "backends/onednn/parallel.hpp"

namespace assay::onednn {
namespace {

// Rows of n elements, divided among the threads. bf16 rows are widened into a part of the scratch.
struct RowsOf {
  explicit RowsOf(const Request& request)
      : threads(request.context.threads),
        n(request.inputs[0].shape.back()),
        count(request.inputs[0].elements() / n),
        narrow(request.inputs[0].dtype == DType::bf16) {}

  // Calls f(begin, end) on each thread.
  template <typename F>
  void run(const F& f) const {
    parallel(threads, count, std::max<std::int64_t>(1, 2048 / n), f);
  }
  // Row r: in place, or widened into `room`.
  const float* read(const void* data, std::int64_t r, float* room) const {
    if (!narrow) return static_cast<const float*>(data) + r * n;
    loops().folds.widen(static_cast<const std::uint16_t*>(data) + r * n, room, n);
    return room;
  }
  // Where to write row r: its final place, or `room` until write().
  float* target(void* data, std::int64_t r, float* room) const {
    return narrow ? room : static_cast<float*>(data) + r * n;
  }
  void write(void* data, std::int64_t r, const float* room) const {
    if (narrow) loops().folds.narrow(room, static_cast<std::uint16_t*>(data) + r * n, n);
  }

  int threads;
  std::int64_t n, count;
  bool narrow;
};

std::int64_t lines(std::int64_t floats) { return (floats + line_floats - 1) / line_floats * line_floats; }

// Operands x, scale, [shift]; results y, [mean], inverse.
template <bool centered>
class RowNormKernel final : public Kernel {
 public:
  explicit RowNormKernel(const Request& request)
      : rows_(request), epsilon_(static_cast<float>(request.node.attributes.number("epsilon"))) {}

  // Per thread, a row of x that becomes y.
  std::int64_t scratch_bytes() const {
    return rows_.narrow ? rows_.threads * lines(rows_.n) * static_cast<std::int64_t>(sizeof(float)) : 0;
  }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    x_ = inputs[0];
    scale_ = static_cast<const float*>(inputs[1]);
    shift_ = centered ? static_cast<const float*>(inputs[2]) : nullptr;
    y_ = outputs[0];
    const auto saved = [&](std::size_t i) {
      return i < outputs.size() ? static_cast<float*>(outputs[i]) : nullptr;
    };
    mean_ = centered ? saved(1) : nullptr;
    inverse_ = saved(centered ? 2 : 1);
    scratch_ = static_cast<float*>(scratch);
  }
  void run() override {
    rows_.run([this](std::int64_t begin, std::int64_t end) {
      float* const room = scratch_ + (rows_.narrow ? omp_get_thread_num() * lines(rows_.n) : 0);
      for (std::int64_t r = begin; r < end; ++r) {
        float mean = 0, inverse = 0;
        loops().row_norms.forward(rows_.read(x_, r, room), scale_, shift_, epsilon_, rows_.n,
                                  rows_.target(y_, r, room), &mean, &inverse);
        rows_.write(y_, r, room);
        if (mean_ != nullptr) mean_[r] = mean;
        if (inverse_ != nullptr) inverse_[r] = inverse;
      }
    });
  }

 private:
  RowsOf rows_;
  float epsilon_;
  const void* x_ = nullptr;
  const float *scale_ = nullptr, *shift_ = nullptr;
  void* y_ = nullptr;
  float *mean_ = nullptr, *inverse_ = nullptr, *scratch_ = nullptr;
};

// Operands x, scale, dy, [mean], inverse, [addend]; results dx, scale_gradient, [shift_gradient]. The gradients of
// scale and shift are sums over all rows: of some rows in float, then in double, by thread.
template <bool centered>
class RowNormGradientKernel final : public Kernel {
 public:
  explicit RowNormGradientKernel(const Request& request) : rows_(request) {}

  // Per thread: rows of x, dy and addend, sums of a few rows, and sums of all its rows, twice as wide.
  std::int64_t scratch_bytes() const {
    return rows_.threads * part() * static_cast<std::int64_t>(sizeof(float));
  }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    x_ = inputs[0];
    scale_ = static_cast<const float*>(inputs[1]);
    dy_ = inputs[2];
    mean_ = centered ? static_cast<const float*>(inputs[3]) : nullptr;
    inverse_ = static_cast<const float*>(inputs[centered ? 4 : 3]);
    addend_ = inputs.size() > addend ? inputs[addend] : nullptr;
    dx_ = outputs[0];
    for (std::size_t i = 0; i < results; ++i)
      gradients_[i] = i + 1 < outputs.size() ? static_cast<float*>(outputs[i + 1]) : nullptr;
    scratch_ = static_cast<float*>(scratch);
  }
  void run() override {
    // A thread without rows leaves its sums as they were.
    for (int thread = 0; thread < rows_.threads; ++thread)
      std::fill_n(totals(thread), sums * lines(rows_.n), 0.0);
    rows_.run([this](std::int64_t begin, std::int64_t end) { add_rows(begin, end, omp_get_thread_num()); });
    for (std::size_t i = 0; i < results; ++i) {
      if (gradients_[i] == nullptr) continue;
      for (std::int64_t d = 0; d < rows_.n; ++d) {
        double sum = 0;
        for (int thread = 0; thread < rows_.threads; ++thread)
          sum += totals(thread)[static_cast<std::int64_t>(i) * lines(rows_.n) + d];
        gradients_[i][d] = static_cast<float>(sum);
      }
    }
  }

 private:
  static constexpr std::size_t results = centered ? 2 : 1;
  static constexpr std::int64_t sums = static_cast<std::int64_t>(results);
  static constexpr std::size_t addend = centered ? 5 : 4;
  static constexpr std::int64_t chunk = 64;  // rows that are summed in float

  std::int64_t part() const { return (3 + 3 * sums) * lines(rows_.n); }
  float* rooms(int thread) const { return scratch_ + thread * part(); }
  double* totals(int thread) const {
    return reinterpret_cast<double*>(rooms(thread) + (3 + sums) * lines(rows_.n));
  }

  void add_rows(std::int64_t begin, std::int64_t end, int thread) const {
    const std::int64_t width = lines(rows_.n);
    float *const x_room = rooms(thread), *const dy_room = x_room + width,
                 *const addend_room = dy_room + width;
    float *const scale_sums = addend_room + width, *const shift_sums =
                                                       centered ? scale_sums + width : nullptr;
    double* const total = totals(thread);
    for (std::int64_t first = begin; first < end; first += chunk) {
      std::fill_n(scale_sums, sums * width, 0.0F);
      for (std::int64_t r = first; r < std::min(first + chunk, end); ++r) {
        const float* added = addend_ == nullptr ? nullptr : rows_.read(addend_, r, addend_room);
        loops().row_norms.gradient(rows_.read(x_, r, x_room), scale_, rows_.read(dy_, r, dy_room), added,
                                   centered ? mean_[r] : 0.0F, inverse_[r], rows_.n,
                                   rows_.target(dx_, r, x_room), scale_sums, shift_sums);
        rows_.write(dx_, r, x_room);
      }
      loops().folds.add(scale_sums, total, sums * width);
    }
  }

  RowsOf rows_;
  const void *x_ = nullptr, *dy_ = nullptr, *addend_ = nullptr;
  const float *scale_ = nullptr, *mean_ = nullptr, *inverse_ = nullptr;
  void* dx_ = nullptr;
  float* gradients_[results] = {};
  float* scratch_ = nullptr;
};

template <typename KernelOf>
Lowered lower_row_norm(const Request& request) {
  Lowered lowered = row_major_draft(request);
  lowered.in_place = in_place(request.node);
  auto kernel = std::make_unique<KernelOf>(request);
  lowered.scratch_bytes = kernel->scratch_bytes();
  lowered.kernel = std::move(kernel);
  return lowered;
}

}  // namespace

std::span<const OpEntry> row_norm_ops() {
  static constexpr std::array entries{
      OpEntry{"layer_norm", lower_row_norm<RowNormKernel<true>>},
      OpEntry{"layer_norm_gradient", lower_row_norm<RowNormGradientKernel<true>>},
      OpEntry{"rms_norm", lower_row_norm<RowNormKernel<false>>},
      OpEntry{"rms_norm_gradient", lower_row_norm<RowNormGradientKernel<false>>}};
  return entries;
}

}  // namespace assay::onednn
