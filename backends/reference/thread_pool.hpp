// A fixed number of threads for loops whose partition never depends on timing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace assay::reference {

// Used from one thread. Uses std::thread and a mutex instead of OpenMP, so that ThreadSanitizer sees it all.
class ThreadPool {
 public:
  // `threads` includes the caller: 1 starts no thread.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(part, begin, end) for size() contiguous parts of [0, count), but not for empty parts; returns
  // when all are done. `least`: the minimum size of a part that is worth a thread. The parts depend only on
  // count, least and size(). Rethrows the first exception of a part.
  using Body = std::function<void(int part, std::int64_t begin, std::int64_t end)>;
  void run(std::int64_t count, std::int64_t least, const Body& body);

 private:
  void work(int part);
  void run_part(int part);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::uint64_t round_ = 0;
  int busy_ = 0;
  bool stop_ = false;
  const Body* body_ = nullptr;
  std::int64_t count_ = 0;
  std::int64_t parts_ = 0;
  std::exception_ptr failure_;
};

}  // namespace assay::reference
