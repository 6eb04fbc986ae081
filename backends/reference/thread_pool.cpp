#include "backends/reference/thread_pool.hpp"

#include <algorithm>

namespace assay::reference {

ThreadPool::ThreadPool(int threads) {
  for (int part = 1; part < threads; ++part) workers_.emplace_back([this, part] { work(part); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t count, std::int64_t least, const Body& body) {
  const std::int64_t parts = std::min<std::int64_t>(size(), count / std::max<std::int64_t>(least, 1));
  if (parts <= 1) {
    if (count > 0) body(0, 0, count);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    count_ = count;
    parts_ = parts;
    failure_ = nullptr;
    busy_ = static_cast<int>(workers_.size());
    ++round_;
  }
  start_.notify_all();
  run_part(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

void ThreadPool::run_part(int part) {
  if (part >= parts_) return;
  try {
    (*body_)(part, count_* part / parts_, count_ * (part + 1) / parts_);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void ThreadPool::work(int part) {
  std::uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
    }
    run_part(part);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace assay::reference
