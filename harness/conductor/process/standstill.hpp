// Notices that this program stood still together with its workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

namespace assay {

// A time in which a process did not run although it could have: it was stopped (SIGSTOP) or frozen (a paused container),
// or the system was suspended.
struct Standstill {
  std::int64_t begin_ns = 0, end_ns = 0;  // between these moments, of the monotonic clock
  double seconds = 0;                     // with the time in which that clock stood still, too
};

// Compares how long a wait took with how long it may take. The time in which the thread was ready to run and had no
// processor does not count, so a busy machine does not look like a standstill. For one thread.
class StandstillWatch {
 public:
  struct Moment {
    std::int64_t monotonic_ns = 0;  // stands still while the system is suspended
    std::int64_t boot_ns = 0;       // does not
    std::int64_t waited_ns = 0;     // for a processor, of this thread; 0: unknown
  };
  static Moment present();
  // `now` is replaceable by tests.
  explicit StandstillWatch(std::function<Moment()> now = present) : now_(std::move(now)) {}

  void begin() { begun_ = now_(); }
  // After a wait that was to take at most `longest`. Nothing if it took less than half a second more.
  std::optional<Standstill> end(std::chrono::nanoseconds longest) const;

 private:
  std::function<Moment()> now_;
  Moment begun_;
};

}  // namespace assay
