// The time limits of --quick (two minutes for each backend, including its checks and the oracle's part in them) and of
// --max-time.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "harness/conductor/process/conversation.hpp"
#include "harness/core/clock.hpp"

namespace assay {

class QuickBudget {
 public:
  using Clock = std::chrono::steady_clock;

  // seconds: for each backend; nullopt: no limit.
  explicit QuickBudget(std::optional<double> seconds) : seconds_(seconds) {}

  bool spent(const std::string& backend) const { return seconds_ && used(backend) >= *seconds_; }
  // When the remaining time of the backend ends, if it starts now, or that of the whole run, if that is earlier.
  std::optional<Deadline> deadline(const std::string& backend) const {
    if (!seconds_) return run_end_;
    const Deadline own{Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(*seconds_ - used(backend))),
                       ReasonCode::quick_time_spent};
    return run_end_ && run_end_->at < own.at ? run_end_ : own;
  }
  void end_run_at(Clock::time_point end) { run_end_ = {end, ReasonCode::max_time_spent}; }
  // Of the whole run.
  std::optional<Deadline> run_end() const { return run_end_; }
  // Adds the time from its construction to its destruction.
  class Stopwatch {
   public:
    Stopwatch(QuickBudget& budget, std::string backend) : budget_(budget), backend_(std::move(backend)) {}
    ~Stopwatch() { budget_.used_[backend_] += seconds_since(begin_); }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

   private:
    QuickBudget& budget_;
    std::string backend_;
    Clock::time_point begin_ = Clock::now();
  };
  // Used seconds by backend.
  const std::map<std::string, double>& used() const { return used_; }

 private:
  double used(const std::string& backend) const {
    const auto found = used_.find(backend);
    return found == used_.end() ? 0 : found->second;
  }

  std::optional<double> seconds_;
  std::optional<Deadline> run_end_;
  std::map<std::string, double> used_;
};

}  // namespace assay
