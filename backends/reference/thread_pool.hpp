// A fixed crew of threads for loops whose partition never depends on timing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace assay::reference {

// Used from one thread. std::thread and a mutex rather than OpenMP, so that ThreadSanitizer sees all of it.
class ThreadPool {
 public:
  // `threads` counts the caller: 1 starts none.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // body(part, begin, end) for size() contiguous parts of [0, count), some perhaps empty and then not called;
  // returns when all are done. `least`: fewer than this many a part are not worth a thread. The parts depend
  // on count, least and size() alone. The first exception of a part is thrown here.
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
