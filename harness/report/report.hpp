// The report as the program holds it. report_json.hpp reads and writes it;
// results/schema/report-1.schema.json describes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/machine/gpu_reading.hpp"
#include "harness/report/axes.hpp"
#include "harness/report/metric.hpp"

namespace assay {

enum class Status {
  ok,
  unsupported,
  unavailable,
  wrong_result,
  out_of_memory,
  crashed,
  timed_out,
  failed,
  interrupted
};
std::string_view to_string(Status status);

// One timed or warm-up stretch of steps between two drains of the device.
struct Block {
  std::string kind{};  // "warm_up", "timed"
  int epoch = 0;
  std::int64_t steps = 0;
  std::int64_t begin_ns = 0;  // CLOCK_MONOTONIC
  std::int64_t end_ns = 0;
  std::int64_t wait_ns = 0;  // waiting for the loader, within the block
  std::int64_t cpu_ns = 0;
  std::int64_t involuntary_switches = 0;
  std::int64_t major_faults = 0;
  std::int64_t steal_ns = 0;  // of the machine
  std::optional<double> loss{};
};

struct Evaluation {
  int epoch = 0;
  std::string split{};  // "train", "validation", "test"
  std::int64_t samples = 0;
  double loss = 0;
  double accuracy = 0;  // 0..1
  double seconds = 0;
};

// A sample of the machine and the worker, by the conductor.
struct MachineSample {
  std::int64_t time_ns = 0;
  double worker_cpu = 0;        // cores busy in the worker and the processes below it since the last sample
  std::int64_t worker_rss = 0;  // summed over them
  double frequency_hz = 0;
  int processes = 1;                // how many they were
  std::optional<GpuReading> gpu{};  // of a cell on cuda
};

struct Fork {
  int round = 0;
  std::uint64_t seed = 0;
  Status status = Status::failed;
  std::string reason{};
  std::string log_tail{};
  std::vector<std::string> flags{};     // quality: "throttled", "preempted", "stolen", "not_steady"
  std::vector<std::string> warnings{};  // what else may have moved its numbers, and costs it no rank
  double compile_seconds = 0;
  std::vector<Block> blocks{};
  std::vector<Evaluation> evaluations{};
  std::vector<std::int64_t> latencies_ns{};
  std::vector<MachineSample> samples{};
  std::optional<GpuUse> gpu{};  // of a cell on cuda that was timed
  std::int64_t host_peak_rss = 0;
  std::map<std::string, std::int64_t> memory{};   // as the worker names it
  std::map<std::string, std::string> settings{};  // observed
  std::string parameters_digest{};                // sha256 of the final state: equal forks are bit-identical
  nlohmann::json operators = nlohmann::json::array();  // the per-op profile, where asked for
};

struct TensorVerdict {
  std::string name{};  // "check/gradient/conv1.weight", "verify/losses"
  double max_error = 0, max_bound = 0;
  double l2_error = 0, l2_bound = 0;
  double ratio = 0;  // the worse of the two errors over its bound; above 1 is wrong
};

// How near the check came to the kinks of an op: of `elements` (of ReLUs, windows of max-pools) so many fell
// on another side in one of the oracle's perturbed runs at least.
struct Ties {
  std::string op{};  // "relu", "max_pool"
  std::int64_t tipped = 0, elements = 0;
};

struct Equivalence {
  bool checked = false;  // false: `reason` says why
  bool passed = false;
  double worst = 0;  // the largest ratio
  std::string reason{};
  std::vector<TensorVerdict> tensors{};
  std::vector<Ties> ties{};
};

struct Published {
  std::string metric{};  // which metric of this cell it stands beside
  std::optional<double> value{};
  std::string unit{};
  std::optional<std::string> to{};  // a ratio: to the cell with this id
  std::string source{};             // citation
  std::string statement{};          // what was said, where there is no number
};

// What one step does at the least, by the graph, and what this machine was measured to do at the most in the
// same run, with the cell's device, precision and threads. 0: not known.
struct Work {
  double flops = 0;           // a multiply-add counts two
  double bytes = 0;           // of a single op: each operand read and each result written once
  double peak_flops = 0;      // a second, of a large matrix product
  double copy_bandwidth = 0;  // bytes read and written a second by a copy that no cache holds
  bool operator==(const Work&) const = default;
};

struct CellReport {
  std::string id{};
  Axes axes{};
  Work work{};
  std::string kind{};  // of the backend: "bare", "framework", "oracle"
  Status status = Status::failed;
  std::string reason{};
  std::vector<std::string> flags{};
  std::string reproduce{};                                     // a command line
  nlohmann::json hyper_parameters = nlohmann::json::object();  // learning rate, schedule, optimizer
  std::string backend_version{};
  nlohmann::json libraries = nlohmann::json::array();
  Equivalence equivalence{};
  std::vector<Published> published{};
  Metrics metrics{};
  std::vector<Fork> forks{};
};

struct Report {
  nlohmann::json run;          // command line, config, start, end, commit, dirty flag, version, complete
  nlohmann::json environment;  // measure/environment
  std::vector<CellReport> cells{};
};

}  // namespace assay
