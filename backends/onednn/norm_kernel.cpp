#include "backends/onednn/norm_kernel.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "backends/onednn/blocks.hpp"
#include "backends/onednn/loops/norm.hpp"

namespace assay::onednn {
namespace {

constexpr std::int64_t wide = 16;  // channels in a block

// Images as blocks of channels.
struct Images {
  std::int64_t images, channels, pixels, stride, block, lanes;
  bool nhwc;

  explicit Images(const Desc& desc) {
    const auto dims = desc.get_dims();
    const Tag tag = dense_image_tag(desc);
    images = dims[0];
    channels = dims[1];
    pixels = dims[2] * dims[3];
    nhwc = tag == Tag::nhwc;
    block = tag == Tag::nChw16c ? 16 : tag == Tag::nChw8c ? 8 : 1;
    stride = nhwc ? channels : block;
    lanes = has_channel_blocks(desc) ? wide : 1;
  }
  std::int64_t blocks() const { return channels / lanes; }
  double elements() const { return static_cast<double>(images * pixels); }  // of a channel
  // Of channel c in image n, in elements.
  std::int64_t at(std::int64_t n, std::int64_t c) const {
    const std::int64_t image = n * channels * pixels;
    return nhwc ? image + c : image + c / block * block * pixels + c % block;
  }
  NormRun run() const { return {pixels, stride}; }
};

template <typename T>
const NormLoops<T>& loops_of(const Images& images) {
  const NormTable& table = norm_loops();
  if constexpr (sizeof(T) == 4) {
    return images.lanes == wide ? table.f32_block : table.f32_single;
  } else {
    return images.lanes == wide ? table.bf16_block : table.bf16_single;
  }
}

// Values that each thread keeps per channel: sums in double and rows of floats.
class Rows {
 public:
  static constexpr std::int64_t sums = 2, floats = 4;  // multiples of a cache line with 16 channels

  explicit Rows(std::int64_t channels) : padded_((channels + wide - 1) / wide * wide) {}
  std::int64_t bytes() const { return padded_ * (sums * 8 + floats * 4); }
  void point_at(void* scratch) { base_ = static_cast<char*>(scratch); }
  double* sum(int thread, int which) const {
    return reinterpret_cast<double*>(base_ + thread * bytes()) + which * padded_;
  }
  float* row(int thread, int which) const {
    return reinterpret_cast<float*>(base_ + thread * bytes() + padded_ * sums * 8) + which * padded_;
  }

 private:
  std::int64_t padded_;
  char* base_ = nullptr;
};

// The passes of one node, divided among the threads: by blocks of channels if these divide evenly, so that no
// thread waits for another and the second pass finds the data of the first in the cache; else by images. For
// the same reason, the passes alternate in direction. The division depends only on the number of threads, so
// sums are the same each time.
class Passes {
 public:
  Passes(const Images& images, int threads)
      : images_(images),
        threads_(threads),
        by_block_(images.blocks() % threads == 0 || images.blocks() >= 8 * threads) {}

  // For each block of channels from c on, calls: job.start(thread, c) on each thread that sums;
  // job.first(thread, n, c) for every image n; job.settle(thread, begin, end, c, owner) on each thread, where
  // the threads from `begin` to `end` have summed and one is the owner; and job.second(thread, n, c) for every
  // image.
  template <typename Job>
  void run(Job& job) const {
    const std::int64_t blocks = images_.blocks(), lanes = images_.lanes, count = images_.images;
#pragma omp parallel num_threads(threads_)
    {
      const int team = omp_get_num_threads(), me = omp_get_thread_num();
      if (by_block_) {
        for (std::int64_t b = blocks * me / team; b < blocks * (me + 1) / team; ++b) {
          const std::int64_t c = b * lanes;
          job.start(me, c);
          for (std::int64_t n = 0; n < count; ++n) job.first(me, n, c);
          job.settle(me, me, me + 1, c, true);
          for (std::int64_t n = count; n-- > 0;) job.second(me, n, c);
        }
      } else {
        const std::int64_t begin = count * me / team, end = count * (me + 1) / team;
        for (std::int64_t b = 0; b < blocks; ++b) job.start(me, b * lanes);
        for (std::int64_t n = begin; n < end; ++n) {
          for (std::int64_t b = 0; b < blocks; ++b) job.first(me, n, b * lanes);
        }
#pragma omp barrier
        for (std::int64_t b = 0; b < blocks; ++b) job.settle(me, 0, team, b * lanes, me == 0);
        for (std::int64_t n = end; n-- > begin;) {
          for (std::int64_t b = blocks; b-- > 0;) job.second(me, n, b * lanes);
        }
      }
    }
  }

 private:
  Images images_;
  int threads_;
  bool by_block_;
};

// The sum of the parts of some threads.
double total(const Rows& rows, int which, int begin, int end, std::int64_t c) {
  double sum = 0;
  for (int part = begin; part < end; ++part) sum += rows.sum(part, which)[c];
  return sum;
}

// Operands x, weight, bias, running_mean, running_variance, residual; results y, mean, inverse_std,
// new_running_mean, new_running_variance.
template <typename T>
class Forward final : public Kernel {
 public:
  Forward(const Request& request, const Desc& x)
      : images_(x),
        loops_(loops_of<T>(images_)),
        passes_(images_, request.context.threads),
        rows_(images_.channels),
        training_(request.node.attributes.get<bool>("training")),
        relu_(request.relu()),
        epsilon_(request.node.attributes.number("epsilon")),
        momentum_(static_cast<float>(request.node.attributes.number("momentum"))) {}

  const Rows& rows() const { return rows_; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    const auto vector = [](void* pointer) { return static_cast<float*>(pointer); };
    x_ = static_cast<const T*>(inputs[0]);
    weight_ = vector(inputs[1]);
    bias_ = vector(inputs[2]);
    running_mean_ = vector(inputs[3]);
    running_variance_ = vector(inputs[4]);
    residual_ = static_cast<const T*>(inputs[5]);
    y_ = static_cast<T*>(outputs[0]);
    for (std::size_t i = 1; i < 5; ++i) made_[i] = vector(outputs[i]);
    rows_.point_at(scratch);
  }

  void run() override { passes_.run(*this); }
  std::string_view implementation() const override {
    return images_.lanes == wide ? "own:block" : "own:single";
  }

  void start(int me, std::int64_t c) {
    for (std::int64_t i = c; i < c + images_.lanes; ++i) {
      rows_.sum(me, 0)[i] = rows_.sum(me, 1)[i] = 0;
      rows_.row(me, pivot)[i] = as_float(x_[images_.at(0, i)]);
    }
  }
  void first(int me, std::int64_t n, std::int64_t c) {
    if (!training_) return;
    loops_.sums(images_.run(), {rows_.row(me, pivot) + c, rows_.sum(me, 0) + c, rows_.sum(me, 1) + c},
                x_ + images_.at(n, c));
  }
  void settle(int me, int begin, int end, std::int64_t c, bool owner) {
    for (std::int64_t i = c; i < c + images_.lanes; ++i) {
      double center = static_cast<double>(running_mean_[i]),
             variance = static_cast<double>(running_variance_[i]);
      if (training_) {
        const double off = total(rows_, 0, begin, end, i) / images_.elements();
        center = static_cast<double>(rows_.row(me, pivot)[i]) + off;
        variance = std::max(total(rows_, 1, begin, end, i) / images_.elements() - off * off, 0.0);
      }
      const auto inverse = static_cast<float>(1 / std::sqrt(variance + epsilon_));
      rows_.row(me, mean)[i] = static_cast<float>(center);
      rows_.row(me, scale)[i] = weight_[i] * inverse;
      if (training_ && owner) keep(i, static_cast<float>(center), inverse, static_cast<float>(variance));
    }
  }
  void second(int me, std::int64_t n, std::int64_t c) {
    const std::int64_t at = images_.at(n, c);
    loops_.apply(images_.run(), {rows_.row(me, mean) + c, rows_.row(me, scale) + c, bias_ + c, relu_},
                 x_ + at, residual_ == nullptr ? nullptr : residual_ + at, y_ + at);
  }

 private:
  enum Row { pivot, mean, scale };

  void keep(std::int64_t c, float center, float inverse, float variance) {
    if (made_[1] != nullptr) made_[1][c] = center;
    if (made_[2] != nullptr) made_[2][c] = inverse;
    if (made_[3] != nullptr) made_[3][c] = momentum_ * running_mean_[c] + (1.0F - momentum_) * center;
    if (made_[4] != nullptr) made_[4][c] = momentum_ * running_variance_[c] + (1.0F - momentum_) * variance;
  }

  Images images_;
  const NormLoops<T>& loops_;
  Passes passes_;
  Rows rows_;
  bool training_, relu_;
  double epsilon_;
  float momentum_;
  const T *x_ = nullptr, *residual_ = nullptr;
  T* y_ = nullptr;
  const float *weight_ = nullptr, *bias_ = nullptr, *running_mean_ = nullptr, *running_variance_ = nullptr;
  float* made_[5] = {};  // by result
};

// Operands x, weight, mean, inverse_std, dy, bias, activated, addend; results dx, dweight, dbias, dy_total.
template <typename T>
class Gradient final : public Kernel {
 public:
  Gradient(const Request& request, const Desc& x)
      : images_(x),
        loops_(loops_of<T>(images_)),
        passes_(images_, request.context.threads),
        rows_(images_.channels) {}

  const Rows& rows() const { return rows_; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    const auto images = [&](std::size_t i) { return static_cast<const T*>(inputs[i]); };
    const auto vector = [&](std::size_t i) { return static_cast<const float*>(inputs[i]); };
    x_ = images(0);
    weight_ = vector(1);
    mean_ = vector(2);
    inverse_ = vector(3);
    dy_ = images(4);
    bias_ = vector(5);
    activated_ = images(6);
    addend_ = images(7);
    dx_ = static_cast<T*>(outputs[0]);
    for (std::size_t i = 1; i <= 2; ++i) made_[i] = static_cast<float*>(outputs[i]);
    dy_total_ = static_cast<T*>(outputs[3]);
    rows_.point_at(scratch);
  }

  void run() override { passes_.run(*this); }
  std::string_view implementation() const override {
    return images_.lanes == wide ? "own:block" : "own:single";
  }

  void start(int me, std::int64_t c) {
    for (std::int64_t i = c; i < c + images_.lanes; ++i) {
      rows_.sum(me, 0)[i] = rows_.sum(me, 1)[i] = 0;
      rows_.row(me, scale)[i] = weight_[i] * inverse_[i];
    }
  }
  void first(int me, std::int64_t n, std::int64_t c) {
    const std::int64_t at = images_.at(n, c);
    loops_.gradient_sums(images_.run(), operands(me, c), {rows_.sum(me, 0) + c, rows_.sum(me, 1) + c},
                         x_ + at, dy_ + at, from(addend_, at), from(activated_, at),
                         dy_total_ == nullptr ? nullptr : dy_total_ + at);
  }
  void settle(int me, int begin, int end, std::int64_t c, bool owner) {
    for (std::int64_t i = c; i < c + images_.lanes; ++i) {
      const double inverse = static_cast<double>(inverse_[i]);
      const double dbias = total(rows_, 0, begin, end, i), dweight = total(rows_, 1, begin, end, i) * inverse;
      const double factor = static_cast<double>(rows_.row(me, scale)[i]);
      rows_.row(me, c1)[i] = static_cast<float>(factor * dbias / images_.elements());
      rows_.row(me, c2)[i] = static_cast<float>(factor * inverse * dweight / images_.elements());
      if (!owner) continue;
      if (made_[1] != nullptr) made_[1][i] = static_cast<float>(dweight);
      if (made_[2] != nullptr) made_[2][i] = static_cast<float>(dbias);
    }
  }
  void second(int me, std::int64_t n, std::int64_t c) {
    const std::int64_t at = images_.at(n, c);
    const NormGradientApply by{rows_.row(me, scale) + c, rows_.row(me, c1) + c, rows_.row(me, c2) + c};
    if (dy_total_ != nullptr) {
      NormGradient plain = operands(me, c);
      plain.recompute = false;
      loops_.gradient_apply(images_.run(), plain, by, x_ + at, dy_total_ + at, nullptr, nullptr, dx_ + at);
    } else {
      loops_.gradient_apply(images_.run(), operands(me, c), by, x_ + at, dy_ + at, from(addend_, at),
                            from(activated_, at), dx_ + at);
    }
  }

 private:
  enum Row { scale, c1, c2 };

  static const T* from(const T* images, std::int64_t at) { return images == nullptr ? nullptr : images + at; }
  NormGradient operands(int me, std::int64_t c) const {
    const float* bias = bias_ == nullptr ? mean_ : bias_;
    return {mean_ + c, rows_.row(me, scale) + c, bias + c, bias_ != nullptr};
  }

  Images images_;
  const NormLoops<T>& loops_;
  Passes passes_;
  Rows rows_;
  const T *x_ = nullptr, *dy_ = nullptr, *activated_ = nullptr, *addend_ = nullptr;
  const float *weight_ = nullptr, *mean_ = nullptr, *inverse_ = nullptr, *bias_ = nullptr;
  T *dx_ = nullptr, *dy_total_ = nullptr;
  float* made_[3] = {};  // by result
};

template <template <typename> typename Made>
void lower_as(const Request& request, const Desc& x, Lowered& lowered) {
  const auto make = [&]<typename T>(T) {
    auto kernel = std::make_unique<Made<T>>(request, x);
    lowered.scratch_bytes = kernel->rows().bytes() * request.context.threads;
    lowered.kernel = std::move(kernel);
  };
  if (x.get_data_type() == dnnl::memory::data_type::bf16) {
    make(std::uint16_t{});
  } else {
    make(float{});
  }
  lowered.in_place = in_place(request.node);
}

}  // namespace

bool has_channel_blocks(const Desc& images) {
  const Tag tag = dense_image_tag(images);
  return tag == Tag::nChw16c || (tag == Tag::nhwc && images.get_dims()[1] % wide == 0);
}

void lower_norm(const Request& request, const Desc& x, Lowered& lowered) {
  lower_as<Forward>(request, x, lowered);
}
void lower_norm_gradient(const Request& request, const Desc& x, Lowered& lowered) {
  lower_as<Gradient>(request, x, lowered);
}

}  // namespace assay::onednn
