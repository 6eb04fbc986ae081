#include "harness/report/fork_time.hpp"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

namespace assay {
namespace {

constexpr std::size_t max_points = 500;

std::string phase_of(const Block& block) {
  if (block.kind != BlockKind::timed) return "warm up";
  return block.epoch > 0 ? fmt::format("epoch {}", block.epoch) : "timed";
}

}  // namespace

std::optional<Timeline> timeline(const Fork& fork) {
  if (fork.samples.size() < 2) return std::nullopt;
  std::int64_t first = fork.samples.front().time_ns;
  for (const MachineSample& sample : fork.samples) first = std::min(first, sample.time_ns);
  for (const Block& block : fork.blocks) first = std::min(first, block.begin_ns);
  // Cannot overflow, whatever a report contains.
  const auto seconds = [first](std::int64_t ns) {
    return 1e-9 * (static_cast<double>(ns) - static_cast<double>(first));
  };
  Timeline out;
  for (const Block& block : fork.blocks) {
    const std::string kind = phase_of(block);
    if (!out.phases.empty() && out.phases.back().kind == kind)
      out.phases.back().end = seconds(block.end_ns);
    else if (out.phases.size() < max_points)
      out.phases.push_back({kind, seconds(block.begin_ns), seconds(block.end_ns)});
    else
      break;
  }
  const std::size_t stride = (fork.samples.size() + max_points - 1) / max_points;
  for (std::size_t i = 0; i < fork.samples.size(); i += stride) {
    double cpu = 0;
    std::optional<double> gpu;
    for (std::size_t k = i; k < std::min(i + stride, fork.samples.size()); ++k) {
      const MachineSample& sample = fork.samples[k];
      cpu = std::max(cpu, sample.worker_cpu);
      if (sample.gpu && sample.gpu->utilisation)
        gpu = std::max(gpu.value_or(*sample.gpu->utilisation), *sample.gpu->utilisation);
    }
    if (gpu && out.gpu.size() == out.times.size()) out.gpu.push_back(*gpu);
    out.times.push_back(seconds(fork.samples[i].time_ns));
    out.cpu.push_back(cpu);
  }
  return out;
}

}  // namespace assay
