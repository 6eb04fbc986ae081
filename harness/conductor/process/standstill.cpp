#include "harness/conductor/process/standstill.hpp"

#include <time.h>

#include <algorithm>
#include <fstream>

namespace assay {
namespace {

constexpr std::int64_t min_standstill_ns = 500'000'000;

std::int64_t clock_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

StandstillWatch::Moment StandstillWatch::present() {
  Moment moment{.monotonic_ns = clock_ns(CLOCK_MONOTONIC), .boot_ns = clock_ns(CLOCK_BOOTTIME)};
  std::ifstream file("/proc/thread-self/schedstat");
  if (std::int64_t ran = 0, waited = 0; file >> ran >> waited) moment.waited_ns = waited;
  return moment;
}

std::optional<Standstill> StandstillWatch::end(std::chrono::nanoseconds longest) const {
  const Moment now = now_();
  const std::int64_t took = now.monotonic_ns - begun_.monotonic_ns;
  const std::int64_t suspended = std::max<std::int64_t>(0, now.boot_ns - begun_.boot_ns - took);
  const std::int64_t waited = std::max<std::int64_t>(0, now.waited_ns - begun_.waited_ns);
  const std::int64_t still = std::max<std::int64_t>(0, took - longest.count() - waited) + suspended;
  if (still < min_standstill_ns) return std::nullopt;
  return Standstill{begun_.monotonic_ns, now.monotonic_ns, 1e-9 * static_cast<double>(still)};
}

}  // namespace assay
