#include "harness/conductor/data/in_threads.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace assay {
namespace {

constexpr std::size_t max_threads = 8;

class Pool {
 public:
  Pool(std::size_t count, const std::function<void(std::size_t)>& work)
      : count_(count), work_(work), first_bad_(count) {}

  void run() {
    const std::size_t threads =
        std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, std::min(max_threads, count_));
    std::vector<std::jthread> pool;
    for (std::size_t i = 1; i < threads; ++i) pool.emplace_back([this] { do_some(); });
    do_some();
    pool.clear();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void do_some() {
    for (std::size_t i; (i = next_++) < count_;) {
      try {
        work_(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (i < first_bad_) {
          first_bad_ = i;
          error_ = std::current_exception();
        }
        next_ = count_;  // smaller numbers are already taken
        return;
      }
    }
  }

  std::size_t count_;
  const std::function<void(std::size_t)>& work_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::size_t first_bad_;
  std::exception_ptr error_;
};

}  // namespace

void in_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  if (count > 0) Pool(count, work).run();
}

}  // namespace assay
