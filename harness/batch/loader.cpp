#include "harness/batch/loader.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace assay {

std::int64_t BatchList::fill(std::int64_t index, void* target, std::int32_t* targets) const {
  auto* inputs = static_cast<std::uint32_t*>(target);
  if (plans.empty()) {
    const std::int64_t first = index * batch;
    const std::int64_t samples = std::clamp<std::int64_t>(source->samples() - first, 0, batch);
    for (std::int64_t i = 0; i < samples; ++i) {
      source->read({static_cast<std::int32_t>(first + i)}, inputs + i * elements);
      source->labels(first + i, targets + i * labels);
    }
    std::fill(inputs + samples * elements, inputs + batch * elements, 0u);
    std::fill(targets + samples * labels, targets + batch * labels, -1);
    return samples;
  }
  const std::int64_t per = static_cast<std::int64_t>(plans.front().size()) / batch;
  const auto& plan = plans[static_cast<std::size_t>(index / per) % plans.size()];
  const std::span<const PlanRow> rows =
      plan.subspan(static_cast<std::size_t>(index % per * batch), static_cast<std::size_t>(batch));
  for (const PlanRow& row : rows) {
    source->read(row, inputs);
    source->labels(row.sample, targets);
    targets += labels;
    inputs += elements;
  }
  return batch;
}

Loader::Loader(int workers, int prefetch, std::int64_t batch, std::int64_t elements, std::int64_t labels) {
  if (workers == 0) return;
  slots_.resize(static_cast<std::size_t>(std::max(prefetch, 1)));
  for (Slot& slot : slots_) {
    slot.inputs.resize(static_cast<std::size_t>(batch * elements));
    slot.labels.resize(static_cast<std::size_t>(batch * labels));
  }
  try {
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {
    stop();  // the destructor does not run if the constructor throws
    throw;
  }
}

Loader::~Loader() { stop(); }

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  free_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::start(BatchList list) {
  {
    std::unique_lock lock(mutex_);
    claimed_ = list_.batches;  // nothing more to claim
    read_ = list_.batches;
    idle_.wait(lock, [&] { return filling_ == 0; });
    list_ = std::move(list);
    claimed_ = read_ = 0;
    for (Slot& slot : slots_) slot.full = false;
  }
  free_.notify_all();
}

void Loader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    free_.wait(lock, [&] { return stopping_ || can_claim(); });
    if (stopping_) return;
    const std::int64_t index = claimed_++;
    Slot& slot = slots_[static_cast<std::size_t>(index) % slots_.size()];
    ++filling_;
    lock.unlock();
    slot.failure = nullptr;
    try {
      slot.samples = list_.fill(index, slot.inputs.data(), slot.labels.data());
    } catch (...) {
      slot.failure = std::current_exception();  // an exception that leaves the thread would end the worker
    }
    lock.lock();
    slot.full = true;
    --filling_;
    filled_.notify_one();
    if (filling_ == 0) idle_.notify_one();
  }
}

bool Loader::wait() {
  assert(!at_end());
  if (threads_.empty()) return false;
  const Slot& slot = slots_[static_cast<std::size_t>(read_) % slots_.size()];
  std::unique_lock lock(mutex_);
  filled_.wait(lock, [&] { return slot.full; });
  return true;
}

std::int64_t Loader::next(void* inputs, std::int32_t* labels) {
  if (!wait()) return list_.fill(read_++, inputs, labels);
  Slot& slot = slots_[static_cast<std::size_t>(read_) % slots_.size()];
  if (slot.failure) std::rethrow_exception(slot.failure);
  // No other thread uses a full slot.
  std::memcpy(inputs, slot.inputs.data(), slot.inputs.size() * sizeof(std::uint32_t));
  std::memcpy(labels, slot.labels.data(), slot.labels.size() * sizeof(std::int32_t));
  const std::int64_t samples = slot.samples;
  std::unique_lock lock(mutex_);
  slot.full = false;
  ++read_;
  lock.unlock();
  free_.notify_one();
  return samples;
}

}  // namespace assay
