// Fills batches ahead of the one who reads them.
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

// A sequence of batches. Its content depends on this alone, never on the number of threads.
struct BatchList {
  const Source* source = nullptr;
  std::int64_t batch = 0;
  std::int64_t elements = 0;  // of a sample, each of 4 bytes
  std::int64_t batches = 0;   // how many there are
  // Training: batch i is rows (i % per) * batch … of plan (i / per) % plans, per = rows / batch; what is left
  // of a plan is dropped. Empty: every sample in order, the last batch padded with zeros and labels -1
  // (evaluation).
  std::vector<std::span<const PlanRow>> plans;

  // Returns the true samples. Threads: const.
  std::int64_t fill(std::int64_t index, void* inputs, std::int32_t* labels) const;
};

// One thread reads; `workers` threads fill up to `prefetch` batches ahead. With no workers the reader's own
// thread fills, in next().
class Loader {
 public:
  Loader(int workers, int prefetch, std::int64_t batch, std::int64_t elements);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  // Drops what is left of the list in hand and begins another. The list's source and plans must live until
  // the next start().
  void start(BatchList list);
  bool at_end() const { return read_ >= list_.batches; }
  // Waits until a worker has filled the next batch. Returns false where there are no workers: next() fills it
  // then. Not at_end().
  bool wait();
  // Copies the next batch; returns its true samples. Not at_end(). Throws what the source threw.
  std::int64_t next(void* inputs, std::int32_t* labels);

 private:
  struct Slot {
    std::vector<std::uint32_t> inputs;  // the bits of f32 or i32
    std::vector<std::int32_t> labels;
    std::int64_t samples = 0;
    std::exception_ptr failure;  // what filling it threw: for the reader
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
