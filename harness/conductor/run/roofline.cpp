#include "harness/conductor/run/roofline.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/fork/work.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/statistics.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/environment.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

constexpr double op_over_peak = 1.1, network_over_peak = 2.5, winograd_over_peak = 6;
constexpr double unremarkable_flops = 1e10;  // of a thread
constexpr double over_copy = 2;

std::vector<double> steps_of(const Fork& fork) {
  std::vector<double> steps;
  for (const Block* block : timed_blocks(fork))
    steps.push_back(block_seconds(*block) / static_cast<double>(block->steps));
  return steps;
}

// Operands of twice the size of the last-level cache, at least 16 Mi elements.
std::string copy_size() {
  const std::int64_t elements =
      std::max<std::int64_t>(last_level_cache(environment()) / 2, std::int64_t{1} << 24);
  return std::to_string(elements);
}

}  // namespace

std::vector<std::string> product_sizes(DeviceKind device) {
  return device == DeviceKind::cpu ? std::vector<std::string>{"m2048", "m512"}
                                   : std::vector<std::string>{"m8192", "m2048"};
}

// m1024 takes a processor a tenth of a second, m8192 a GPU 1.5 to 20 milliseconds.
std::string quick_product_size(DeviceKind device) { return device == DeviceKind::cpu ? "m1024" : "m8192"; }

std::string Rooflines::peak_key(const Axes& axes) {
  return fmt::format("{}/{}/t{}", to_string(axes.device), to_string(axes.precision), axes.threads);
}

// With the product that told it: the peak of another one would stay in force.
std::string Rooflines::kept_key(const Axes& axes) {
  return axes.device == DeviceKind::cpu
             ? peak_key(axes)
             : fmt::format("{}/{}", peak_key(axes), quick_product_size(axes.device));
}

std::string Rooflines::copy_key(const Axes& axes) {
  return fmt::format("{}/t{}", to_string(axes.device), axes.threads);
}

std::vector<Cell> Rooflines::probes(const Axes& axes, const std::string& workload, const std::string& size,
                                    CacheState cache, PrecisionKind precision) const {
  const auto word = [](auto value) { return std::string(to_string(value)); };
  std::vector<Cell> cells;
  for (const bool oracle : {false, true}) {
    for (const BackendDescription& backend : context_.registries.backends.backends) {
      const bool ours = backend.kind == BackendKind::engine || backend.kind == BackendKind::bare;
      const bool wanted = oracle ? backend.oracle : ours;
      if (!wanted || !backend.available() || !contains(backend.devices, axes.device) ||
          !contains(backend.precisions, precision))
        continue;
      const RunConfig config = config_of({{"workload", {workload}},
                                          {"backend", {backend.name}},
                                          {"mode", {backend.modes.front()}},
                                          {"device", {word(axes.device)}},
                                          {"precision", {word(precision)}},
                                          {"task", {word(Task::infer)}},
                                          {"size", {size}},
                                          {"cache", {word(cache)}},
                                          {"threads", {std::to_string(axes.threads)}},
                                          {"check", {"false"}},
                                          {"blocks", {"5"}},
                                          {"block-seconds", {"0.1"}},
                                          {"warm-up-steps", {"2"}},
                                          {"warm-up-seconds", {"0.2"}}});
      for (Cell& cell : expand(config, context_.registries).cells) cells.push_back(std::move(cell));
    }
    if (!cells.empty()) break;
  }
  return cells;
}

std::pair<double, bool> Rooflines::rate(const Cell& probe, double amount, const char* unit) {
  progress_.begin(probe.id + " roofline");
  const ForkOutcome outcome = time_cell(probe, 0, context_, nullptr);
  const std::vector<double> steps = steps_of(outcome.fork);
  const bool ok = outcome.fork.status == Status::ok && !steps.empty();
  double step = ok ? *std::min_element(steps.begin(), steps.end()) : 0;
  // A cell is held to its time on the device alone, so the peak is that, too.
  if (ok && outcome.fork.device_timed)
    for (const double alone : outcome.fork.device_timed->step_seconds) step = std::min(step, alone);
  const double rate = ok ? amount / step : 0;
  log_.push_back({.cell = probe.id, .unit = unit, .reason = outcome.fork.reason, .rate = rate});
  progress_.end(rate > 0 ? fmt::format("ok, {:.3g} {}", rate, unit)
                         : fmt::format("{}: {}", to_string(outcome.fork.status), outcome.fork.reason),
                rate > 0, false);
  return {rate, counts(outcome.fork)};
}

void Rooflines::measure_peak(const Axes& axes, const std::string& size) {
  MachinePeak& peak = peaks_[peak_key(axes)];
  for (const Cell& probe : probes(axes, "op/gemm", size, CacheState::warm, axes.precision)) {
    const auto [reached, quiet] = rate(probe, work_of(probe).flops, "FLOP/s");
    peak.add(reached, quiet);
  }
}

namespace {

// What is kept of a machine.
struct KeptPeaks {
  std::map<std::string, double> rates{};
};
inline Description describe(Of<KeptPeaks>) {
  return fields("kept_peaks", "The peaks of a machine.",
                field("rates", &KeptPeaks::rates, "By device, precision and threads, in FLOP/s."));
}

// Nothing of damaged content, which is made again.
KeptPeaks peaks_in(const MachineStore& store, const MachineRecord& machine) {
  const auto kept = store.find(machine);
  if (!kept) return {};
  try {
    return decoded<KeptPeaks>(*kept, "peaks", {.not_finite = false});
  } catch (const std::runtime_error&) {
    return {};
  }
}

}  // namespace

std::optional<double> PeakMemory::rate(const std::string& key, const MachineRecord& machine) const {
  const KeptPeaks kept = peaks_in(store_, machine);
  const auto found = kept.rates.find(key);
  return found != kept.rates.end() && found->second > 0 ? std::optional(found->second) : std::nullopt;
}

void PeakMemory::keep(const std::string& key, double rate, const MachineRecord& machine) const {
  KeptPeaks kept = peaks_in(store_, machine);
  double& peak = kept.rates[key];
  peak = std::max(peak, rate);
  store_.keep(machine, encode(kept));
}

void Rooflines::know_peak(const Axes& axes, const MachineRecord& machine) {
  if (const auto kept = memory_.rate(kept_key(axes), machine)) {
    peaks_[peak_key(axes)].add(*kept, true);
    return;
  }
  measure_peak(axes, quick_product_size(axes.device));
  keep_peak(axes, machine);
}

void Rooflines::keep_peak(const Axes& axes, const MachineRecord& machine) const {
  const MachinePeak& reached = peaks_.at(peak_key(axes));
  if (reached.is_limit) memory_.keep(kept_key(axes), reached.rate, machine);
}

void Rooflines::measure(const Axes& axes) {
  for (const std::string& size : product_sizes(axes.device)) measure_peak(axes, size);
  double& copy = copies_[copy_key(axes)];
  for (const Cell& probe : probes(axes, "op/from_array", copy_size(), CacheState::cold, PrecisionKind::fp32))
    copy = std::max(copy, rate(probe, work_of(probe).bytes, "B/s").first);
}

void Rooflines::apply(const Axes& axes, Work& work) const {
  if (axes.ranks() > 1) return;
  if (const auto peak = peaks_.find(peak_key(axes)); peak != peaks_.end())
    work.peak_flops = std::max(work.peak_flops, peak->second.rate);
  if (const auto copy = copies_.find(copy_key(axes)); copy != copies_.end())
    work.copy_bandwidth = std::max(work.copy_bandwidth, copy->second);
}

void Rooflines::write(MachineRecord& machine) const {
  if (peaks_.empty()) return;
  std::map<std::string, double> rates;
  for (const auto& [key, peak] : peaks_) rates[key] = peak.rate;
  machine.peak_flops = rates;
  machine.copy_bandwidth = copies_;
  machine.roofline_probes = log_;
}

double least_step(const Fork& fork) {
  const std::vector<double> steps = steps_of(fork);
  if (steps.empty()) return 0;
  const double step = median(steps);
  const bool apart = fork.device_timed && !fork.device_timed->step_seconds.empty();
  return apart ? std::min(step, median(fork.device_timed->step_seconds)) : step;
}

double allowed_over_peak(const Program& program) {
  const bool convolves = std::ranges::any_of(program.inference.nodes(), [](const Node& node) {
    return node.op->name().find("convolution") != std::string_view::npos;
  });
  if (convolves) return winograd_over_peak;
  return program.is_op() ? op_over_peak : network_over_peak;
}

bool may_be_beyond_peak(const Axes& axes, const Work& work, double step_seconds) {
  if (step_seconds <= 0) return false;
  return axes.device != DeviceKind::cpu || work.flops / step_seconds > unremarkable_flops * axes.threads;
}

std::string beyond_roofline(const Axes& axes, const Work& work, double input_bytes, double step_seconds,
                            double over_peak) {
  if (step_seconds <= 0) return {};
  const double flops = work.flops / step_seconds, bytes = input_bytes / step_seconds;
  if (work.peak_flops > 0 && flops > over_peak * work.peak_flops) {
    return fmt::format(
        "not plausible: {:.3g} FLOP/s, while the fastest matrix product reached {:.3g} on this machine; either it "
        "skipped work, or the clock is wrong",
        flops, work.peak_flops);
  }
  if (axes.cache == CacheState::cold && work.copy_bandwidth > 0 && bytes > over_copy * work.copy_bandwidth) {
    return fmt::format(
        "not plausible: reads {:.3g} bytes/s of operands that no cache holds, while a copy reached {:.3g} on this "
        "machine; either it did not read them all, or the cache is larger than the machine reports",
        bytes, work.copy_bandwidth);
  }
  return {};
}

}  // namespace assay
