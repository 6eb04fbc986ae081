#include "harness/worker/exchange_times.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "harness/core/clock.hpp"

namespace assay {
namespace {

// As in backends/python/assay_worker/exchange.py.
constexpr double seconds_of_time = 0.1;  // that each time is measured for, about
constexpr int rounds = 5, fewest_rounds = 3;
constexpr double long_step = 1;  // seconds; then there are the fewest rounds
constexpr std::int64_t warm_up = 2;

class Stopwatch {
 public:
  Stopwatch(Executable& executable, GradientExchange& exchange)
      : executable_(executable), exchange_(exchange) {}

  // Each returns the seconds of one of `count` runs in a row, which all ranks begin together.
  double step(std::int64_t count) {
    return timed(count, [this] { executable_.step(0, 0, ++number_); });
  }
  double local_step(std::int64_t count) {
    exchange_.set_enabled(false);
    const double seconds = step(count);
    exchange_.set_enabled(true);
    return seconds;
  }
  double bare(std::int64_t count) {
    return timed(count, [this] { exchange_.run(); });
  }

 private:
  template <typename Run>
  double timed(std::int64_t count, const Run& run) {
    executable_.synchronize();
    executable_.agree(0);
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < count; ++i) run();
    executable_.synchronize();
    return seconds_since(begin) / static_cast<double>(count);
  }

  Executable& executable_;
  GradientExchange& exchange_;
  std::int64_t number_ = 0;  // of the last step
};

}  // namespace

protocol::Exchanged exchange_times(Executable& executable) {
  GradientExchange* const exchange = executable.gradient_exchange();
  if (exchange == nullptr)
    return {.reason = "[exchange] there is one rank, or this backend cannot leave it out of a step"};
  Stopwatch watch(executable, *exchange);
  watch.step(1);
  const double second = watch.step(1);
  watch.local_step(warm_up);
  watch.bare(warm_up);
  // The other ranks take as many as rank 0.
  const auto fitting = std::llround(seconds_of_time / std::max(second, 1e-6));
  protocol::Exchanged found{.gradient_bytes = exchange->bytes()};
  found.steps = executable.agree(std::max<std::int64_t>(1, fitting));
  const std::int64_t count = executable.agree(second > long_step ? fewest_rounds : rounds);
  for (std::int64_t round = 0; round < count; ++round) {
    found.step_seconds.push_back(watch.step(found.steps));
    found.local_seconds.push_back(watch.local_step(found.steps));
    found.bare_seconds.push_back(watch.bare(found.steps));
  }
  return found;
}

}  // namespace assay
