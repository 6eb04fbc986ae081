#include "backends/cuda/gpu/rank_sums.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "backends/cuda/gpu/handles.hpp"

namespace assay::cuda {
namespace {

class GpuRankSums final : public RankSums {
 public:
  GpuRankSums(std::shared_ptr<Nccl> nccl, cudaStream_t stream, Memory& memory)
      : nccl_(std::move(nccl)), stream_(stream), memory_(memory) {}

  int world() const override { return nccl_->world(); }

  void start(float* values, std::int64_t count) override {
    auto summed = take_event();
    ASSAY_CUDA(cudaEventRecord(ready_.get(), stream_));
    ASSAY_CUDA(cudaStreamWaitEvent(sums_.get(), ready_.get(), 0));
    nccl_->sum(values, count, sums_.get());
    ASSAY_CUDA(cudaEventRecord(summed->get(), sums_.get()));
    started_.push_back({values, std::move(summed)});
  }

  void finish(const float* values) override {
    const auto found = std::ranges::find(started_, values, &Started::values);
    if (found == started_.end()) throw std::logic_error("[ranks] no bucket was started there");
    ASSAY_CUDA(cudaStreamWaitEvent(stream_, found->summed->get(), 0));
    free_.push_back(std::move(found->summed));
    started_.erase(found);
  }

  std::int64_t first(std::int64_t value) override {
    const Storage on_device(memory_, sizeof value, "a number for all ranks");
    memory_.put(on_device.data(), &value, sizeof value);
    nccl_->broadcast(static_cast<std::int64_t*>(on_device.data()), stream_);
    memory_.fetch(&value, on_device.data(), sizeof value);
    return value;
  }

 private:
  struct Started {
    const float* values;
    std::unique_ptr<Event> summed;
  };

  std::unique_ptr<Event> take_event() {
    if (free_.empty()) return std::make_unique<Event>(cudaEventDisableTiming);
    auto event = std::move(free_.back());
    free_.pop_back();
    return event;
  }

  std::shared_ptr<Nccl> nccl_;
  cudaStream_t stream_;
  Memory& memory_;
  OwnedStream sums_;
  Event ready_{cudaEventDisableTiming};  // what the next bucket's gradients wait for
  std::vector<Started> started_;
  std::vector<std::unique_ptr<Event>> free_;
};

}  // namespace

std::unique_ptr<RankSums> make_rank_sums(std::shared_ptr<Nccl> nccl, cudaStream_t stream, Memory& memory) {
  return std::make_unique<GpuRankSums>(std::move(nccl), stream, memory);
}

}  // namespace assay::cuda
