// Adds up buckets of gradients over the ranks while the step goes on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/collectives/communicator.hpp"

namespace assay::collectives {

// Gradients that are exchanged together. Its memory and its gradients must keep their places from start() to wait().
class Bucket {
 public:
  struct Part {
    const float* gradient = nullptr;
    std::int64_t elements = 0;
  };
  std::vector<Part> parts;  // one after the other in `sums`
  float* sums = nullptr;

  std::int64_t elements() const;
  // Copies the gradients to `sums`; returns the number of elements.
  std::int64_t copy_parts() const;

 private:
  friend class Exchange;
  enum class State { idle, waiting, running, done };

  State state_ = State::idle;
  std::exception_ptr error_;
};

// How buckets are exchanged. MPI makes progress only within its own calls, and Open MPI looks for messages without a
// pause, so the thread keeps a processor busy while it waits for another rank.
enum class Progress {
  thread,  // a thread of its own calls the communicator, and the step goes on
  step,    // start() does all of it: nothing overlaps, and no thread takes the step's processor
};

// A thread if this process has more than one processor.
Progress usual_progress();

// Used from one thread, that of the step. All ranks start the same buckets in the same order.
class Exchange {
 public:
  explicit Exchange(std::shared_ptr<Communicator> communicator, Progress progress = usual_progress());
  // Aborts all ranks if a bucket is not done within seconds.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  int rank() const { return communicator_->rank(); }
  int world() const { return communicator_->world(); }
  Progress progress() const { return progress_; }
  std::string library() const { return communicator_->library(); }

  // A bucket may be started once it is added, until it is removed. remove() waits for it, as the destructor does.
  void add(Bucket& bucket);
  void remove(Bucket& bucket) noexcept;
  // Begins to fill `sums` with the sums over all ranks. Does not allocate.
  void start(Bucket& bucket);
  // Returns when the sums at this address are complete. Throws the communicator's error.
  void wait(const float* sums);
  // What follows is only for when every started bucket was waited for.
  // Communicator::first().
  std::int64_t agree(std::int64_t value) { return communicator_->first(value); }
  // If not, kernels must neither start buckets nor wait for them.
  bool enabled() const { return enabled_; }
  void set_enabled(bool enabled) { enabled_ = enabled; }
  // The number of elements of each added bucket.
  std::vector<std::int64_t> sizes();
  // Communicator::sum(), in this thread.
  void sum(float* values, std::int64_t count) { communicator_->sum(values, count); }

 private:
  void serve();
  void run(Bucket& bucket) noexcept;
  void finish(std::unique_lock<std::mutex>& lock, const Bucket& bucket) noexcept;

  std::shared_ptr<Communicator> communicator_;
  Progress progress_;
  bool enabled_ = true;
  std::mutex mutex_;  // guards what follows, and the state and error of buckets
  std::condition_variable changed_;
  std::vector<Bucket*> added_;
  std::vector<Bucket*> queue_;  // a ring of the buckets to be exchanged
  std::size_t begin_ = 0, count_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace assay::collectives
