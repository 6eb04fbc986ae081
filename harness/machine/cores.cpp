#include "harness/machine/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/processor_times.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/environment.hpp"
#include "harness/machine/hardware_info.hpp"

namespace assay {
namespace {

std::vector<int> find_cores() {
  const std::vector<int> all = allowed_processors();
  if (all.empty()) return {0};
  std::vector<int> cores = one_per_core(all);
  const std::set<int> firsts(cores.begin(), cores.end());
  std::ranges::copy_if(all, std::back_inserter(cores), [&](int cpu) { return !firsts.contains(cpu); });
  return cores;
}

}  // namespace

const std::vector<int>& usable_cores() {
  static const std::vector<int> cores = find_cores();
  return cores;
}

int threads_within(std::size_t processors, std::optional<double> quota) {
  const double whole = quota ? std::ceil(*quota) : HUGE_VAL;
  return static_cast<int>(std::max(1.0, std::min(static_cast<double>(processors), whole)));
}

std::optional<double> cpu_quota() {
  static const std::optional<double> quota = control_group_limits("/").cpu_quota.value();
  return quota;
}

std::string overload_text(std::int64_t threads, std::size_t processors, std::optional<double> quota) {
  if (threads > static_cast<std::int64_t>(processors))
    return fmt::format(
        "{} threads share {}: the program may use no more, so the numbers are those of an overloaded machine.",
        threads, plural(processors, "processor"));
  const int within = threads_within(processors, quota);
  if (threads <= within) return {};
  return fmt::format(
      "{} threads share a CPU quota of {:g} processor{}: the control group stops them when it is used up, and such rounds "
      "do not count; use --threads {}, or raise the quota.",
      threads, *quota, *quota == 1 ? "" : "s", within);
}

int usable_threads() { return threads_within(usable_cores().size(), cpu_quota()); }

std::vector<int> worker_cores(int threads, int lane) {
  return worker_cores_of(usable_cores(), threads, lane);
}

std::vector<int> worker_cores_of(const std::vector<int>& all, int threads, int lane) {
  const auto budget = static_cast<std::size_t>(std::max(threads, 0));
  if (budget == 0 || budget > all.size()) return {};
  const std::size_t lanes = all.size() / budget;
  const auto first =
      all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(lane) % lanes * budget);
  std::vector<int> cores(first, first + threads);
  std::sort(cores.begin(), cores.end());
  return cores;
}

std::vector<int> one_per_core(const std::vector<int>& processors) {
  static const std::map<int, int> core_of = cores_of_cpus();  // does not change
  std::set<int> seen;
  std::vector<int> firsts;
  for (const int processor : processors) {
    const auto core = core_of.find(processor);
    if (core == core_of.end() || seen.insert(core->second).second) firsts.push_back(processor);
  }
  return firsts;
}

void leave_cores_to_worker(const std::vector<int>& taken) {
  cpu_set_t left;
  CPU_ZERO(&left);
  for (const int cpu : usable_cores()) {
    if (!contains(taken, cpu)) CPU_SET(static_cast<unsigned>(cpu), &left);
  }
  if (CPU_COUNT(&left) == 0) {
    for (const int cpu : usable_cores()) CPU_SET(static_cast<unsigned>(cpu), &left);
  }
  ::sched_setaffinity(0, sizeof left, &left);
}

void take_cores_back() { leave_cores_to_worker({}); }

std::string cores_text(const std::vector<int>& cores) { return fmt::format("{}", fmt::join(cores, ",")); }

}  // namespace assay
