#include "harness/machine/core_probe.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <system_error>
#include <thread>

#include "harness/core/statistics.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

// About 1 ms. Eight independent chains keep a core's multiplier busy, so that two of these loops on one core take
// twice as long.
void multiply() {
  std::array<std::uint64_t, 8> chains = {1, 2, 3, 4, 5, 6, 7, 8};
  for (int i = 0; i < 350'000; ++i)
    for (std::uint64_t& chain : chains) {
      chain = chain * 0x9e3779b97f4a7c15U + 1;
      asm volatile("" : "+r"(chain));  // neither leaves it out nor makes vectors of it
    }
}

// About 0.3 ms: each multiplication waits for the one before.
void chain() {
  std::uint64_t value = 1;
  for (int i = 0; i < 200'000; ++i) {
    value = value * 0x9e3779b97f4a7c15U + 1;
    asm volatile("" : "+r"(value));
  }
}

// The shortest of several: an interrupt or another process lengthens some of them.
template <typename Loop>
double shortest_seconds(Loop loop, int repetitions) {
  double shortest = 0;
  for (int i = 0; i < repetitions; ++i) {
    const Clock::time_point begin = Clock::now();
    loop();
    const double took = std::chrono::duration<double>(Clock::now() - begin).count();
    shortest = i == 0 ? took : std::min(shortest, took);
  }
  return shortest;
}

// Moves this thread to a processor.
bool move_to(int processor) {
  if (processor < 0 || processor >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(processor), &set);
  return ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set) == 0;
}

// The times of the loop on these processors, all at the same time; 0 where a thread could not be placed. Throws
// std::system_error if there are no more threads.
std::vector<double> seconds_together(const std::vector<int>& processors) {
  std::vector<double> times(processors.size());
  std::atomic<std::size_t> ready = 0, done = 0;
  std::atomic<bool> given_up = false;
  const auto wait_for = [&](const std::atomic<std::size_t>& count) {
    return count < processors.size() && !given_up;
  };
  std::vector<std::jthread> threads;
  try {
    for (std::size_t i = 0; i < processors.size(); ++i)
      threads.emplace_back([&, i] {
        const bool placed = move_to(processors[i]);
        ++ready;
        while (wait_for(ready)) std::this_thread::yield();
        multiply();  // the others begin
        if (placed) times[i] = shortest_seconds(multiply, 5);
        ++done;
        while (wait_for(done)) multiply();  // stays busy until the last one has measured
      });
  } catch (...) {
    given_up = true;
    throw;
  }
  threads.clear();
  return times;
}

// A token that goes round a ring of these processors. Nothing if it went round too seldom.
std::optional<double> hop_seconds(const std::vector<int>& processors) {
  struct alignas(128) Slot {
    std::atomic<std::int64_t> token = 0;
  };
  constexpr std::chrono::milliseconds most(3);
  const std::size_t count = processors.size();
  const auto rounds =
      static_cast<std::int64_t>(std::max<std::size_t>(1, 128 / count));  // between looks at the clock
  std::vector<Slot> slots(count);
  std::atomic<bool> over = false;
  // Passes the token on; false if the ring is over.
  const auto pass = [&](std::size_t i, std::int64_t token) {
    while (slots[i].token.load(std::memory_order_acquire) != token)
      if (over.load(std::memory_order_relaxed)) return false;
    const std::size_t next = (i + 1) % count;
    slots[next].token.store(next == 0 ? token + 1 : token, std::memory_order_release);
    return true;
  };
  std::vector<double> hops;
  const auto lead = [&] {
    move_to(processors[0]);
    slots[0].token = 1;
    const Clock::time_point begin = Clock::now();
    Clock::time_point last = begin;
    for (std::int64_t token = 1; last - begin < most; ++token) {
      pass(0, token);
      if (token % rounds != 0) continue;
      const Clock::time_point now = Clock::now();
      hops.push_back(std::chrono::duration<double>(now - last).count() /
                     static_cast<double>(rounds * static_cast<std::int64_t>(count)));
      last = now;
    }
    over = true;
  };
  std::vector<std::jthread> threads;
  try {
    for (std::size_t i = 1; i < count; ++i)
      threads.emplace_back([&, i] {
        move_to(processors[i]);
        for (std::int64_t token = 1; pass(i, token);) ++token;
      });
    threads.emplace_back(lead);
  } catch (...) {
    over = true;
    throw;
  }
  threads.clear();
  constexpr std::size_t least = 8;
  if (hops.size() < least) return std::nullopt;
  return quantile(hops, 0.25);  // others interrupt some rounds
}

}  // namespace

double loop_seconds() {
  constexpr double alike = 1.01, most = 0.1;
  std::array<double, 3> shortest{};
  shortest.fill(std::numeric_limits<double>::infinity());
  const Clock::time_point begin = Clock::now();
  do {
    shortest.back() = std::min(shortest.back(), shortest_seconds(chain, 4));
    std::ranges::sort(shortest);
  } while (!(shortest.back() < alike * shortest.front()) &&
           std::chrono::duration<double>(Clock::now() - begin).count() < most);
  return shortest.front();
}

std::optional<CoreReading> read_cores(const std::vector<int>& processors) try {
  if (processors.size() < 2) return std::nullopt;
  const std::vector<double> together = seconds_together(processors);
  if (std::ranges::find(together, 0.0) != together.end()) return std::nullopt;
  const auto slowest = std::ranges::max_element(together);
  const std::size_t index = static_cast<std::size_t>(slowest - together.begin());
  const double alone = seconds_together({processors[index]}).front();
  const std::optional<double> hop = hop_seconds(processors);
  if (alone <= 0 || !hop) return std::nullopt;
  return CoreReading{.slowdown = *slowest / alone, .hop_ns = 1e9 * *hop};
} catch (const std::system_error&) {  // no more threads
  return std::nullopt;
}

}  // namespace assay
