// The means of gradients over the ranks. Gradients keep the formats of their parameters; a bucket has their floats, with
// the padding of the formats, one gradient after the other.
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "backends/collectives/exchange.hpp"
#include "backends/onednn/blocks.hpp"
#include "backends/onednn/lowering.hpp"

namespace assay::onednn {
namespace {

using collectives::Bucket;
using collectives::Exchange;

class StartKernel final : public Kernel {
 public:
  // `exchange` is null for one rank.
  StartKernel(Exchange* exchange, const std::vector<Format>& gradients) : exchange_(exchange) {
    for (const Format& format : gradients) bucket_.parts.push_back({nullptr, floats_of(format)});
    if (exchange_ != nullptr) exchange_->add(bucket_);
  }
  ~StartKernel() override {
    if (exchange_ != nullptr) exchange_->remove(bucket_);
  }
  StartKernel(const StartKernel&) = delete;
  StartKernel& operator=(const StartKernel&) = delete;

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      bucket_.parts[i].gradient = static_cast<const float*>(inputs[i]);
    bucket_.sums = static_cast<float*>(outputs[0]);
  }
  void run() override {
    if (exchange_ == nullptr)
      bucket_.copy_parts();
    else if (exchange_->enabled())
      exchange_->start(bucket_);
  }

 private:
  Exchange* exchange_;
  Bucket bucket_;
};

class WaitKernel final : public Kernel {
 public:
  WaitKernel(Exchange* exchange, int threads, const std::vector<Format>& means)
      : exchange_(exchange), threads_(threads) {
    for (const Format& format : means) means_.push_back({nullptr, nullptr, floats_of(format)});
  }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void*) override {
    sums_ = static_cast<const float*>(inputs[0]);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      means_[i].gradient = static_cast<const float*>(inputs[1 + i]);
      means_[i].to = static_cast<float*>(outputs[i]);
    }
  }
  void run() override {
    if (exchange_ != nullptr && !exchange_->enabled()) return keep_gradients();
    if (exchange_ != nullptr) exchange_->wait(sums_);
    const float share = exchange_ != nullptr ? 1.0F / static_cast<float>(exchange_->world()) : 1.0F;
    const float* from = sums_;
    for (const Mean& mean : means_) {
      for_blocks(threads_, mean.elements, [&](std::int64_t i, std::int64_t n) {
        loops().folds.scale(from + i, share, mean.to + i, n);
      });
      from += mean.elements;
    }
  }

 private:
  struct Mean {
    const float* gradient = nullptr;  // this rank's
    float* to = nullptr;              // may be the same place
    std::int64_t elements = 0;
  };

  void keep_gradients() {
    for (const Mean& mean : means_) {
      if (mean.to == mean.gradient) continue;
      for_blocks(threads_, mean.elements,
                 [&](std::int64_t i, std::int64_t n) { std::copy_n(mean.gradient + i, n, mean.to + i); });
    }
  }

  Exchange* exchange_;
  int threads_;
  const float* sums_ = nullptr;
  std::vector<Mean> means_;
};

// Sums zeros in buckets of the same sizes.
class BareExchange final : public GradientExchange {
 public:
  explicit BareExchange(Exchange& exchange) : exchange_(exchange) {}

  std::int64_t bytes() const override {
    const std::vector<std::int64_t> sizes = exchange_.sizes();
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) *
           static_cast<std::int64_t>(sizeof(float));
  }
  void set_enabled(bool enabled) override { exchange_.set_enabled(enabled); }
  void run() override {
    if (zeros_.empty())
      for (const std::int64_t size : exchange_.sizes()) zeros_.emplace_back(static_cast<std::size_t>(size));
    for (std::vector<float>& bucket : zeros_)
      exchange_.sum(bucket.data(), static_cast<std::int64_t>(bucket.size()));
  }

 private:
  Exchange& exchange_;
  std::vector<std::vector<float>> zeros_;  // made at the first run
};

Format format_of(const Request& request, std::size_t gradient) {
  return request.settled(gradient) ? request.offer.inputs[gradient]
                                   : to_format(row_major(request.inputs[gradient]));
}

// FNV-1a.
std::int64_t digest(const std::vector<Format>& formats) {
  std::uint64_t sum = 0xcbf29ce484222325U;
  for (const Format& format : formats) {
    for (const char c : format.key + ';') sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return static_cast<std::int64_t>(sum >> 1);
}

Lowered lower_start(const Request& request) {
  Lowered lowered = draft(request);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < request.node.inputs.size(); ++i) {
    lowered.inputs[i] = format_of(request, i);
    bytes += lowered.inputs[i].bytes;
  }
  Exchange* const exchange = request.context.exchange;
  if (exchange != nullptr && exchange->agree(digest(lowered.inputs)) != digest(lowered.inputs))
    throw std::runtime_error(
        "[ranks] ranks chose different layouts for " + request.node.name +
        ", so their gradients cannot be added: use machines with the same instruction set, or --mode eager");
  lowered.outputs[0] = opaque_format(bytes, row_major(request.inputs[0]));
  lowered.kernel = std::make_unique<StartKernel>(exchange, lowered.inputs);
  return lowered;
}

Lowered lower_wait(const Request& request) {
  Lowered lowered = draft(request);
  for (std::size_t i = 0; i < request.node.outputs.size(); ++i)
    lowered.inputs[1 + i] = lowered.outputs[i] = format_of(request, 1 + i);
  lowered.in_place = in_place(request.node);
  lowered.kernel =
      std::make_unique<WaitKernel>(request.context.exchange, request.context.threads, lowered.outputs);
  return lowered;
}

}  // namespace

std::unique_ptr<GradientExchange> make_bare_exchange(Exchange& exchange) {
  return std::make_unique<BareExchange>(exchange);
}

std::span<const OpEntry> all_reduce_ops() {
  static constexpr std::array entries{OpEntry{"all_reduce_start", lower_start},
                                      OpEntry{"all_reduce_wait", lower_wait}};
  return entries;
}

}  // namespace assay::onednn
