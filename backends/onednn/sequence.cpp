// Rotary position embedding, masks, the mean over the steps that are left, and the caches of task decode.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/onednn/blocks.hpp"
#include "backends/onednn/lowering.hpp"

namespace assay::onednn {
namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

class RotaryKernel final : public Kernel {
 public:
  explicit RotaryKernel(const Request& request)
      : threads_(request.context.threads),
        dtype_(request.inputs[0].dtype),
        steps_(request.inputs[0].shape[1]),
        depth_(request.inputs[0].shape[3]),
        heads_(request.inputs[0].elements() / depth_),
        heads_of_step_(request.inputs[0].shape[2]),
        interleaved_(request.node.attributes.get<bool>("interleaved")) {
    const double base = request.node.attributes.number("base");
    const double sign = request.node.attributes.get_or("inverse", false) ? -1 : 1;
    for (std::int64_t s = 0; s < steps_; ++s) {
      for (std::int64_t i = 0; i < pairs(); ++i) {
        const double angle = static_cast<double>(s) *
                             std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(depth_));
        cosines_.push_back(static_cast<float>(std::cos(angle)));
        sines_.push_back(static_cast<float>(sign * std::sin(angle)));
      }
    }
  }
  // Per thread, a head of x that becomes y.
  std::int64_t scratch_bytes() const {
    return dtype_ == DType::bf16 ? threads_ * depth_ * static_cast<std::int64_t>(sizeof(float)) : 0;
  }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    x_ = inputs[0];
    y_ = outputs[0];
    scratch_ = static_cast<float*>(scratch);
  }
  void run() override {
    parallel(threads_, heads_, std::max<std::int64_t>(1, block_elements / depth_),
             [this](std::int64_t begin, std::int64_t end) {
               for (std::int64_t h = begin; h < end; ++h) turn(h);
             });
  }

 private:
  std::int64_t pairs() const { return depth_ / 2; }

  void turn(std::int64_t head) const {
    const std::int64_t at = head * depth_, angle = head / heads_of_step_ % steps_ * pairs();
    if (dtype_ != DType::bf16)
      return turn(static_cast<const float*>(x_) + at, angle, static_cast<float*>(y_) + at);
    float* const room = scratch_ + omp_get_thread_num() * depth_;
    loops().folds.widen(static_cast<const std::uint16_t*>(x_) + at, room, depth_);
    turn(room, angle, room);
    loops().folds.narrow(room, static_cast<std::uint16_t*>(y_) + at, depth_);
  }
  // y may be x.
  void turn(const float* x, std::int64_t angle, float* y) const {
    const std::int64_t step = interleaved_ ? 2 : 1, second = interleaved_ ? 1 : pairs();
    const float *cosine = cosines_.data() + angle, *sine = sines_.data() + angle;
#pragma omp simd
    for (std::int64_t i = 0; i < pairs(); ++i) {
      const float u = x[i * step], w = x[i * step + second];
      y[i * step] = u * cosine[i] - w * sine[i];
      y[i * step + second] = u * sine[i] + w * cosine[i];
    }
  }

  int threads_;
  DType dtype_;
  std::int64_t steps_, depth_, heads_, heads_of_step_;
  bool interleaved_;
  std::vector<float> cosines_, sines_;  // (steps, pairs)
  const void* x_ = nullptr;
  void* y_ = nullptr;
  float* scratch_ = nullptr;
};

class PaddingMaskKernel final : public Kernel {
 public:
  explicit PaddingMaskKernel(const Request& request)
      : tokens_(request.inputs[0].elements()),
        padding_(request.node.attributes.get<std::int64_t>("padding")) {}
  std::int64_t scratch_bytes() const { return 0; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    from_ = static_cast<const std::int32_t*>(inputs[0]);
    to_ = static_cast<float*>(outputs[0]);
  }
  void run() override {
    for (std::int64_t i = 0; i < tokens_; ++i) to_[i] = from_[i] == padding_ ? hidden : 0.0F;
  }

 private:
  std::int64_t tokens_, padding_;
  const std::int32_t* from_ = nullptr;
  float* to_ = nullptr;
};

// Kernels of task decode. A place outside of the tokens or the cache is left out.

// Operands tokens, position.
class TokensAtKernel final : public Kernel {
 public:
  explicit TokensAtKernel(const Request& request)
      : samples_(request.inputs[0].shape[0]),
        all_(request.inputs[0].shape[1]),
        length_(request.outputs[0].shape[1]) {}
  std::int64_t scratch_bytes() const { return 0; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    tokens_ = static_cast<const std::int32_t*>(inputs[0]);
    position_ = static_cast<const std::int32_t*>(inputs[1]);
    to_ = static_cast<std::int32_t*>(outputs[0]);
  }
  void run() override {
    for (std::int64_t n = 0; n < samples_; ++n) {
      for (std::int64_t i = 0; i < length_; ++i) {
        const std::int64_t place = *position_ + i;
        to_[n * length_ + i] = place < 0 || place >= all_ ? -1 : tokens_[n * all_ + place];
      }
    }
  }

 private:
  std::int64_t samples_, all_, length_;
  const std::int32_t *tokens_ = nullptr, *position_ = nullptr;
  std::int32_t* to_ = nullptr;
};

// Operands cache, x, position. The result is usually the cache itself.
class CacheWriteKernel final : public Kernel {
 public:
  explicit CacheWriteKernel(const Request& request)
      : threads_(request.context.threads),
        samples_(request.inputs[0].shape[0]),
        places_(request.inputs[0].shape[1]),
        steps_(request.inputs[1].shape[1]),
        bytes_of_place_(request.inputs[0].shape[2] * request.inputs[0].shape[3] *
                        size_of(request.inputs[0].dtype)) {}
  std::int64_t scratch_bytes() const { return 0; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    cache_ = static_cast<const std::byte*>(inputs[0]);
    x_ = static_cast<const std::byte*>(inputs[1]);
    position_ = static_cast<const std::int32_t*>(inputs[2]);
    to_ = static_cast<std::byte*>(outputs[0]);
  }
  void run() override {
    const std::int64_t first = std::max<std::int64_t>(0, *position_);
    const std::int64_t count = std::min(steps_, places_ - first);
    const std::int64_t grain = std::max<std::int64_t>(1, block_elements / std::max<std::int64_t>(1, steps_));
    parallel(threads_, samples_, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        std::byte* const to = to_ + n * places_ * bytes_of_place_;
        if (to_ != cache_)
          std::memcpy(to, cache_ + n * places_ * bytes_of_place_,
                      static_cast<std::size_t>(places_ * bytes_of_place_));
        if (count > 0)
          std::memcpy(to + first * bytes_of_place_, x_ + n * steps_ * bytes_of_place_,
                      static_cast<std::size_t>(count * bytes_of_place_));
      }
    });
  }

 private:
  int threads_;
  std::int64_t samples_, places_, steps_, bytes_of_place_;
  const std::byte *cache_ = nullptr, *x_ = nullptr;
  const std::int32_t* position_ = nullptr;
  std::byte* to_ = nullptr;
};

class CacheMaskKernel final : public Kernel {
 public:
  explicit CacheMaskKernel(const Request& request)
      : queries_(request.outputs[0].shape[2]), keys_(request.outputs[0].shape[3]) {}
  std::int64_t scratch_bytes() const { return 0; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    position_ = static_cast<const std::int32_t*>(inputs[0]);
    mask_ = static_cast<float*>(outputs[0]);
  }
  void run() override {
    for (std::int64_t s = 0; s < queries_; ++s) {
      const std::int64_t seen = std::clamp<std::int64_t>(*position_ + s + 1, 0, keys_);
      float* const row = mask_ + s * keys_;
      std::fill_n(row, seen, 0.0F);
      std::fill(row + seen, row + keys_, hidden);
    }
  }

 private:
  std::int64_t queries_, keys_;
  const std::int32_t* position_ = nullptr;
  float* mask_ = nullptr;
};

class AdvanceKernel final : public Kernel {
 public:
  explicit AdvanceKernel(const Request& request)
      : by_(static_cast<std::int32_t>(request.node.attributes.get<std::int64_t>("by"))) {}
  std::int64_t scratch_bytes() const { return 0; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    from_ = static_cast<const std::int32_t*>(inputs[0]);
    to_ = static_cast<std::int32_t*>(outputs[0]);
  }
  void run() override { *to_ = *from_ + by_; }

 private:
  std::int32_t by_;
  const std::int32_t* from_ = nullptr;
  std::int32_t* to_ = nullptr;
};

// The steps of a sample that a mask leaves; all without one.
struct Steps {
  std::int64_t samples, length, width;
  const float* mask = nullptr;  // (samples, length)

  bool has(std::int64_t sample, std::int64_t t) const {
    return mask == nullptr || mask[sample * length + t] != hidden;
  }
  // 1 / the number of steps; 0 if the mask hides all.
  float share(std::int64_t sample) const {
    std::int64_t count = 0;
    for (std::int64_t t = 0; t < length; ++t) count += has(sample, t) ? 1 : 0;
    return count == 0 ? 0.0F : 1.0F / static_cast<float>(count);
  }
};

// Calls f(sample, first, n) for blocks of n <= block_elements elements of a vector of each sample, divided
// among the threads.
template <typename F>
void for_vectors(int threads, const Steps& steps, const F& f) {
  const std::int64_t blocks = (steps.width + block_elements - 1) / block_elements;
  parallel(threads, steps.samples * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % blocks * block_elements;
      f(i / blocks, first, std::min(block_elements, steps.width - first));
    }
  });
}

// Operands x, mask; result y.
class MeanPoolKernel final : public Kernel {
 public:
  explicit MeanPoolKernel(const Request& request)
      : threads_(request.context.threads),
        dtype_(request.inputs[0].dtype),
        steps_{request.inputs[0].shape[0], request.inputs[0].shape[1], request.inputs[0].shape[2]} {}
  std::int64_t scratch_bytes() const { return 0; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    x_ = inputs[0];
    steps_.mask = inputs.size() > 1 ? static_cast<const float*>(inputs[1]) : nullptr;
    y_ = outputs[0];
  }
  void run() override {
    for_vectors(threads_, steps_, [this](std::int64_t sample, std::int64_t first, std::int64_t n) {
      Block from, to;
      double sums[block_elements] = {};
      for (std::int64_t t = 0; t < steps_.length; ++t) {
        if (!steps_.has(sample, t)) continue;
        const std::int64_t at = (sample * steps_.length + t) * steps_.width + first;
        loops().folds.add(from.read(x_, dtype_, at, n), sums, n);
      }
      const double share = static_cast<double>(steps_.share(sample));
      float* const y = to.target(y_, dtype_, sample * steps_.width + first);
      for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(sums[i] * share);
      to.write(y_, dtype_, sample * steps_.width + first, n);
    });
  }

 private:
  int threads_;
  DType dtype_;
  Steps steps_;
  const void* x_ = nullptr;
  void* y_ = nullptr;
};

// Operands dy, mask; result dx.
class MeanPoolGradientKernel final : public Kernel {
 public:
  explicit MeanPoolGradientKernel(const Request& request)
      : threads_(request.context.threads),
        dtype_(request.outputs[0].dtype),
        steps_{request.outputs[0].shape[0], request.outputs[0].shape[1], request.outputs[0].shape[2]} {}
  std::int64_t scratch_bytes() const { return 0; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    dy_ = inputs[0];
    steps_.mask = inputs.size() > 1 ? static_cast<const float*>(inputs[1]) : nullptr;
    dx_ = outputs[0];
  }
  void run() override {
    for_vectors(threads_, steps_, [this](std::int64_t sample, std::int64_t first, std::int64_t n) {
      Block from;
      const float* dy = from.read(dy_, dtype_, sample * steps_.width + first, n);
      const float share = steps_.share(sample);
      for (std::int64_t t = 0; t < steps_.length; ++t) {
        Block to;
        const std::int64_t at = (sample * steps_.length + t) * steps_.width + first;
        float* const dx = to.target(dx_, dtype_, at);
        if (steps_.has(sample, t)) {
          loops().folds.scale(dy, share, dx, n);
        } else {
          std::fill_n(dx, n, 0.0F);
        }
        to.write(dx_, dtype_, at, n);
      }
    });
  }

 private:
  int threads_;
  DType dtype_;
  Steps steps_;
  const void* dy_ = nullptr;
  void* dx_ = nullptr;
};

template <typename KernelOf>
Lowered lower_sequence(const Request& request) {
  Lowered lowered = row_major_draft(request);
  lowered.in_place = in_place(request.node);
  auto kernel = std::make_unique<KernelOf>(request);
  lowered.scratch_bytes = kernel->scratch_bytes();
  lowered.kernel = std::move(kernel);
  return lowered;
}

}  // namespace

std::span<const OpEntry> sequence_ops() {
  static constexpr std::array entries{OpEntry{"rotary", lower_sequence<RotaryKernel>},
                                      OpEntry{"padding_mask", lower_sequence<PaddingMaskKernel>},
                                      OpEntry{"tokens_at", lower_sequence<TokensAtKernel>},
                                      OpEntry{"cache_write", lower_sequence<CacheWriteKernel>},
                                      OpEntry{"cache_mask", lower_sequence<CacheMaskKernel>},
                                      OpEntry{"advance", lower_sequence<AdvanceKernel>},
                                      OpEntry{"mean_pool", lower_sequence<MeanPoolKernel>},
                                      OpEntry{"mean_pool_gradient", lower_sequence<MeanPoolGradientKernel>}};
  return entries;
}

}  // namespace assay::onednn
