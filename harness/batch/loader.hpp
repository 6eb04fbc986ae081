// Fills batches ahead of their reader.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "harness/batch/plan_file.hpp"
#include "harness/batch/source.hpp"

namespace assay {

// A sequence of batches. Its content depends only on this struct, never on the number of threads.
struct BatchList {
  const Source* source = nullptr;
  std::int64_t batch = 0;
  std::int64_t elements = 0;  // of a sample, each of 4 bytes
  std::int64_t batches = 0;   // number of batches
  // Training: batch i is rows (i % per) * batch … of plan (i / per) % plans, per = rows / batch; the rest of
  // a plan is dropped. Empty: every sample in order, the last batch padded with zeros and labels -1
  // (evaluation).
  std::vector<std::span<const PlanRow>> plans;
  std::int64_t labels = 1;  // of a sample

  // Returns the number of true samples. Thread-safe.
  std::int64_t fill(std::int64_t index, void* inputs, std::int32_t* targets) const;
};

// One thread reads; `workers` threads fill up to `prefetch` batches ahead. Without workers, next() fills the
// batch on the reader's thread.
class Loader {
 public:
  // elements, labels: of a sample.
  Loader(int workers, int prefetch, std::int64_t batch, std::int64_t elements, std::int64_t labels = 1);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  // Drops the rest of the current list and starts another. The list's source and plans must live until the
  // next start().
  void start(BatchList list);
  bool at_end() const { return read_ >= list_.batches; }
  // Waits until a worker has filled the next batch. Returns false if there are no workers: then next() fills
  // it. Not allowed if at_end().
  bool wait();
  // Copies the next batch; returns its number of true samples. Not allowed if at_end(). Throws the exceptions
  // of the source.
  std::int64_t next(void* inputs, std::int32_t* labels);

 private:
  struct Slot {
    std::vector<std::uint32_t> inputs;  // the bits of f32 or i32
    std::vector<std::int32_t> labels;
    std::int64_t samples = 0;
    std::exception_ptr failure;  // the exception of its worker, for the reader
    bool full = false;
  };

  void work();
  void stop();
  bool can_claim() const {
    return claimed_ < list_.batches && claimed_ < read_ + static_cast<std::int64_t>(slots_.size());
  }

  BatchList list_;  // changed only while no worker is filling
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable free_, filled_, idle_;
  std::int64_t claimed_ = 0;  // batches handed to workers
  std::int64_t read_ = 0;     // batches handed to the reader
  int filling_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace assay
