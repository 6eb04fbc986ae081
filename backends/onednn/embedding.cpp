// Lookup of table rows, and the gradients. Each thread has its own columns, so that all threads share the
// work on a row with many positions (the padding), and the order of the sums is the order of the positions.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/onednn/blocks.hpp"
#include "backends/onednn/lowering.hpp"
#include "backends/onednn/parallel.hpp"

namespace assay::onednn {
namespace {

constexpr std::int64_t column_grain = 16;  // a cache line of floats

class Embedding final : public Kernel {
 public:
  explicit Embedding(const Request& request)
      : threads_(request.context.threads),
        count_(request.inputs[0].elements()),
        rows_(request.inputs[1].shape[0]),
        row_bytes_(request.inputs[1].shape[1] * size_of(request.inputs[1].dtype)) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    indices_ = static_cast<const std::int32_t*>(inputs[0]);
    table_ = static_cast<const char*>(inputs[1]);
    y_ = static_cast<char*>(outputs[0]);
  }
  void run() override {
    const auto bytes = static_cast<std::size_t>(row_bytes_);
    parallel(threads_, count_, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t s = begin; s < end; ++s) {
        char* to = y_ + s * row_bytes_;
        if (indices_[s] < 0 || indices_[s] >= rows_) {
          std::memset(to, 0, bytes);
        } else {
          std::memcpy(to, table_ + indices_[s] * row_bytes_, bytes);
        }
      }
    });
  }

 private:
  int threads_;
  std::int64_t count_, rows_, row_bytes_;
  const std::int32_t* indices_ = nullptr;
  const char* table_ = nullptr;
  char* y_ = nullptr;
};

// Dense, or with `sparse` only the touched rows. T: the type of dy, float or the bits of a bf16.
template <typename T, bool sparse>
class EmbeddingGradient final : public Kernel {
 public:
  explicit EmbeddingGradient(const Request& request)
      : threads_(request.context.threads),
        count_(request.inputs[0].elements()),
        rows_(request.node.attributes.get<std::int64_t>("rows")),
        kept_(request.outputs[0].shape[0]),
        width_(request.outputs[0].shape[1]) {}
  // For each row of the table, its position among the touched rows.
  std::int64_t scratch_bytes() const {
    return sparse ? rows_ * static_cast<std::int64_t>(sizeof(std::int32_t)) : 0;
  }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    indices_ = static_cast<const std::int32_t*>(inputs[0]);
    dy_ = static_cast<const T*>(inputs[1]);
    sums_ = static_cast<float*>(outputs[0]);
    if constexpr (sparse) {
      touched_ = static_cast<std::int32_t*>(outputs[1]);
      places_ = static_cast<std::int32_t*>(scratch);
    }
  }
  void run() override {
    if constexpr (sparse) find_touched();
    parallel(threads_, width_, column_grain, [this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = 0; row < kept_; ++row)
        std::fill(sums_ + row * width_ + begin, sums_ + row * width_ + end, 0.0F);
      for (std::int64_t s = 0; s < count_; ++s) {
        const std::int64_t index = indices_[s];
        if (index < 0 || index >= rows_) continue;
        const T* from = dy_ + s * width_;
        float* to = sums_ + (sparse ? places_[index] : index) * width_;
#pragma omp simd
        for (std::int64_t d = begin; d < end; ++d) to[d] += as_float(from[d]);
      }
    });
  }

 private:
  void find_touched() {
    std::fill_n(places_, rows_, -1);
    for (std::int64_t s = 0; s < count_; ++s) {
      if (indices_[s] >= 0 && indices_[s] < rows_) places_[indices_[s]] = 0;
    }
    std::int32_t next = 0;
    for (std::int64_t row = 0; row < rows_; ++row) {
      if (places_[row] < 0) continue;
      touched_[next] = static_cast<std::int32_t>(row);
      places_[row] = next++;
    }
    std::fill(touched_ + next, touched_ + kept_, -1);
  }

  int threads_;
  std::int64_t count_, rows_, kept_, width_;
  const std::int32_t* indices_ = nullptr;
  const T* dy_ = nullptr;
  float* sums_ = nullptr;
  std::int32_t *touched_ = nullptr, *places_ = nullptr;
};

class DenseRows final : public Kernel {
 public:
  explicit DenseRows(const Request& request)
      : kept_(request.inputs[0].shape[0]),
        width_(request.inputs[0].shape[1]),
        rows_(request.outputs[0].shape[0]) {}

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    values_ = static_cast<const float*>(inputs[0]);
    touched_ = static_cast<const std::int32_t*>(inputs[1]);
    dense_ = static_cast<float*>(outputs[0]);
  }
  void run() override {
    std::fill_n(dense_, rows_ * width_, 0.0F);
    for (std::int64_t k = 0; k < kept_; ++k) {
      if (touched_[k] >= 0 && touched_[k] < rows_)
        std::copy_n(values_ + k * width_, width_, dense_ + touched_[k] * width_);
    }
  }

 private:
  std::int64_t kept_, width_, rows_;
  const float* values_ = nullptr;
  const std::int32_t* touched_ = nullptr;
  float* dense_ = nullptr;
};

Lowered plain_embedding(const Request& request) {
  Lowered lowered = draft(request);
  for (std::size_t i = 0; i < request.inputs.size(); ++i)
    lowered.inputs[i] = to_format(row_major(request.inputs[i]));
  for (std::size_t o = 0; o < request.outputs.size(); ++o)
    lowered.outputs[o] = to_format(row_major(request.outputs[o]));
  return lowered;
}

template <typename K>
Lowered lower_embedding(const Request& request) {
  Lowered lowered = plain_embedding(request);
  auto kernel = std::make_unique<K>(request);
  if constexpr (requires { kernel->scratch_bytes(); }) lowered.scratch_bytes = kernel->scratch_bytes();
  lowered.kernel = std::move(kernel);
  return lowered;
}

template <bool sparse>
Lowered lower_embedding_gradient(const Request& request) {
  if (request.inputs[1].dtype == DType::bf16)
    return lower_embedding<EmbeddingGradient<std::uint16_t, sparse>>(request);
  return lower_embedding<EmbeddingGradient<float, sparse>>(request);
}

}  // namespace

std::span<const OpEntry> embedding_ops() {
  static constexpr std::array entries{OpEntry{"embedding", lower_embedding<Embedding>},
                                      OpEntry{"embedding_gradient", lower_embedding_gradient<false>},
                                      OpEntry{"embedding_row_gradient", lower_embedding_gradient<true>},
                                      OpEntry{"dense_rows", lower_embedding<DenseRows>}};
  return entries;
}

}  // namespace assay::onednn
