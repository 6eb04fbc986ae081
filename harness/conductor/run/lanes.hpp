// Parallel jobs, one thread each; the thread that starts them also takes their results.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace assay {

// Used by one thread. The destructor waits for running jobs.
template <typename Result>
class Lanes {
 public:
  bool empty() const { return running_.empty(); }

  // number: identifies the job. Throws std::system_error if no thread can be created.
  void start(std::size_t number, std::function<Result()> job) {
    std::packaged_task<Result()> task(std::move(job));
    std::future<Result> result = task.get_future();
    std::jthread thread([this, number, task = std::move(task)]() mutable {
      task();
      const std::lock_guard lock(mutex_);
      ended_.push_back(number);
      one_ended_.notify_one();
    });
    running_.push_back({number, std::move(result), std::move(thread)});
  }

  // Waits for a job; returns its number and result. Throws what the job threw. Precondition: not empty().
  std::pair<std::size_t, Result> take() {
    std::size_t number = 0;
    {
      std::unique_lock lock(mutex_);
      one_ended_.wait(lock, [&] { return !ended_.empty(); });
      number = ended_.front();
      ended_.erase(ended_.begin());
    }
    const auto found = std::find_if(running_.begin(), running_.end(),
                                    [&](const Lane& lane) { return lane.number == number; });
    Lane lane = std::move(*found);
    running_.erase(found);
    return {number, lane.result.get()};
  }

 private:
  struct Lane {
    std::size_t number;
    std::future<Result> result;
    std::jthread thread;
  };

  std::mutex mutex_;
  std::condition_variable one_ended_;
  std::vector<std::size_t> ended_;
  std::vector<Lane> running_;  // last member, so that it is destroyed before the members that its threads use
};

}  // namespace assay
