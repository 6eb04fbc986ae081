#include "backends/collectives/exchange.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace assay::collectives {
namespace {

// For a bucket whose step has failed: the other ranks may never start it.
constexpr std::chrono::seconds patience{10};

}  // namespace

std::int64_t Bucket::elements() const {
  std::int64_t sum = 0;
  for (const Part& part : parts) sum += part.elements;
  return sum;
}

std::int64_t Bucket::copy_parts() const {
  float* to = sums;
  for (const Part& part : parts) to = std::copy_n(part.gradient, part.elements, to);
  return to - sums;
}

Progress usual_progress() {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  const bool known = ::sched_getaffinity(0, sizeof processors, &processors) == 0;
  return known && CPU_COUNT(&processors) == 1 ? Progress::step : Progress::thread;
}

Exchange::Exchange(std::shared_ptr<Communicator> communicator, Progress progress)
    : communicator_(std::move(communicator)), progress_(progress) {
  if (progress_ == Progress::thread) thread_ = std::thread([this] { serve(); });
}

Exchange::~Exchange() {
  while (!added_.empty()) remove(*added_.back());
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Exchange::add(Bucket& bucket) {
  const std::lock_guard lock(mutex_);
  added_.push_back(&bucket);
  // The queue is empty between steps, when executables are made.
  if (count_ > 0) return;
  begin_ = 0;
  queue_.resize(added_.size());
}

void Exchange::remove(Bucket& bucket) noexcept {
  std::unique_lock lock(mutex_);
  finish(lock, bucket);
  std::erase(added_, &bucket);
}

std::vector<std::int64_t> Exchange::sizes() {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> found;
  for (const Bucket* bucket : added_) found.push_back(bucket->elements());
  return found;
}

void Exchange::start(Bucket& bucket) {
  if (progress_ == Progress::step) return run(bucket);
  {
    const std::lock_guard lock(mutex_);
    if (bucket.state_ == Bucket::State::waiting || bucket.state_ == Bucket::State::running ||
        count_ == queue_.size())
      throw std::logic_error("[ranks] a bucket was started twice, or was not added");
    bucket.state_ = Bucket::State::waiting;
    queue_[(begin_ + count_++) % queue_.size()] = &bucket;
  }
  changed_.notify_all();
}

void Exchange::wait(const float* sums) {
  std::unique_lock lock(mutex_);
  const auto found = std::ranges::find_if(added_, [&](const Bucket* bucket) {
    return bucket->sums == sums && bucket->state_ != Bucket::State::idle;
  });
  if (found == added_.end()) throw std::logic_error("[ranks] no bucket was started there");
  Bucket& bucket = **found;
  changed_.wait(lock, [&] { return bucket.state_ == Bucket::State::done; });
  bucket.state_ = Bucket::State::idle;
  if (bucket.error_) std::rethrow_exception(bucket.error_);
}

void Exchange::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || count_ > 0; });
    if (count_ == 0) return;
    Bucket& bucket = *queue_[begin_];
    bucket.state_ = Bucket::State::running;
    lock.unlock();
    run(bucket);
    lock.lock();
    begin_ = (begin_ + 1) % queue_.size();
    --count_;
    bucket.state_ = Bucket::State::done;
    changed_.notify_all();
  }
}

void Exchange::run(Bucket& bucket) noexcept {
  bucket.error_ = nullptr;
  const std::int64_t elements = bucket.copy_parts();
  try {
    communicator_->sum(bucket.sums, elements);
  } catch (...) {
    bucket.error_ = std::current_exception();
  }
  if (progress_ == Progress::step) bucket.state_ = Bucket::State::done;
}

void Exchange::finish(std::unique_lock<std::mutex>& lock, const Bucket& bucket) noexcept {
  const auto unused = [&] {
    return bucket.state_ == Bucket::State::idle || bucket.state_ == Bucket::State::done;
  };
  if (!changed_.wait_for(lock, patience, unused))
    communicator_->abort("[ranks] a bucket of gradients was not exchanged: all ranks end");
}

}  // namespace assay::collectives
