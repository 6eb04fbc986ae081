// results/clock.json: what a fork measured, as harness/report/report.hpp names it.
//
//   {"schema": "assay-clock/1", "complete": true,
//    "clock": {"name", "resolution_ns", "cost_ns"},
//    "loader": {"kind", "workers", "prefetch", "resident_batches", "batches", "wait_ns"},
//    "warm_up": {"steps", "seconds", "steady"},
//    "blocks": [{"kind", "epoch", "steps", "begin_ns", "end_ns", "wait_ns", "cpu_ns", "involuntary_switches",
//                "major_faults", "steal_ns", "loss"}],
//    "evaluations": [{"epoch", "split", "samples", "loss", "accuracy", "seconds"}],
//    "latencies_ns": [], "latencies_seen": 0}
//
// A number that is not finite is null. "complete" is true when the last block asked for has ended. "steady"
// is null where it was not asked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/clock.hpp"
#include "harness/protocol/request.hpp"

namespace assay {

struct TimedBlock {
  std::string kind;
  int epoch = 0;
  std::int64_t steps = 0, begin_ns = 0, end_ns = 0, wait_ns = 0;
  std::int64_t cpu_ns = 0, involuntary_switches = 0, major_faults = 0, steal_ns = 0;
  double loss = 0;  // NaN where there is none
};

struct SplitEvaluation {
  int epoch = 0;
  std::string split;
  std::int64_t samples = 0;
  double loss = 0, accuracy = 0, seconds = 0;
};

struct ClockResults {
  bool complete = false;
  ClockQuality clock;
  LoaderRequest loader;  // as it was, not as it was asked for
  std::int64_t batches = 0, wait_ns = 0;
  std::int64_t warm_up_steps = 0;
  double warm_up_seconds = 0;
  std::optional<bool> steady;
  std::vector<TimedBlock> blocks;
  std::vector<SplitEvaluation> evaluations;
  std::vector<std::int64_t> latencies_ns;
  std::int64_t latencies_seen = 0;  // latencies_ns is a uniform sample of so many
};

// Atomic. Throws IoError.
void write_results(const std::filesystem::path& path, const ClockResults& results);

}  // namespace assay
