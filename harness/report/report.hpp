// The report as the program holds it. report_fields.hpp describes it, report_json.hpp reads and writes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/words.hpp"
#include "harness/machine/gpu_reading.hpp"
#include "harness/protocol/clock_file.hpp"
#include "harness/report/axes.hpp"
#include "harness/report/metric.hpp"
#include "harness/report/status.hpp"

namespace assay {

// A sample of the machine and the worker, by the conductor.
struct MachineSample {
  std::int64_t time_ns = 0;
  double worker_cpu = 0;        // cores busy in the worker and the processes below it since the last sample
  std::int64_t worker_rss = 0;  // summed over them
  double frequency_hz = 0;
  int processes = 1;                // how many they were
  std::optional<GpuReading> gpu{};  // of a cell on cuda
};

// Wall time, in seconds, of what the conductor did with one worker.
struct TimeSpent {
  double folder = 0;   // writing the cell folder
  double start = 0;    // of the process, up to its hello
  double compile = 0;  // the answer to `compile`, or to `restart`
  double run = 0;      // the answer to `run`: staging, warm-up, timed blocks, evaluations
  double check = 0;    // the answer to `check` or `verify`
  double judge = 0;    // the oracle's answers, and comparing with them
  double quit = 0;     // of the process
  bool operator==(const TimeSpent&) const = default;
};

struct Fork {
  int round = 0;
  std::uint64_t seed = 0;
  std::string start{};           // ISO 8601, UTC; empty in reports of before
  std::optional<int> order{};    // place among all forks of the run, from 0
  std::optional<int> session{};  // index into the run's sessions
  Status status = Status::failed;
  std::string reason{};
  ReasonCode reason_code = ReasonCode::absent;  // it is ok, or its report is of before
  std::string log_tail{};
  std::vector<std::string> flags{};     // of quality_flag: what may have moved its numbers
  std::vector<std::string> warnings{};  // what else may have moved its numbers, and costs it no rank
  double compile_seconds = 0;           // of a resident fork: of the process that an earlier one started
  bool resident = false;                // it ran in the process of an earlier fork
  std::optional<TimeSpent> spent{};
  std::vector<Block> blocks{};
  std::optional<Disturbance> disturbance{};
  std::vector<Evaluation> evaluations{};
  std::vector<std::int64_t> latencies_ns{};
  std::int64_t latencies_seen = 0;  // steps that `latencies_ns` is a sample of; 0: not known
  std::optional<bool> steady{};     // whether the time of a step had settled when timing began
  std::vector<MachineSample> samples{};
  std::optional<GpuUse> gpu{};  // of a cell on cuda that was timed
  std::int64_t host_peak_rss = 0;
  std::map<std::string, std::int64_t> memory{};   // as the worker names it
  std::map<std::string, std::string> settings{};  // observed
  std::map<std::string, std::string>
      variables{};                  // of the environment, that affect speed (machine/environment.hpp)
  nlohmann::json libraries{};       // where they are not those of the cell; else null
  std::string parameters_digest{};  // sha256 of the final state: equal forks are bit-identical
  nlohmann::json operators = nlohmann::json::array();  // the per-op profile, where asked for
};

struct TensorVerdict {
  std::string name{};  // "first/moment/conv1.weight.m", "last/loss"
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

// How the check was done.
struct CheckSettings {
  std::uint64_t seed = 0;          // of its parameters and inputs
  std::int64_t distinct = 0;       // distinct samples in its batch
  int perturbations = 0;           // perturbed runs of the oracle
  int version = 0;                 // of the check's rules
  bool oracle_cached = false;      // the oracle's answers were not made in this run
  double loosest = 0;              // bound of a gradient, relative L2, by which the exam can tell least
  std::string loosest_gradient{};  // of which parameter
  bool timed_program_verified =
      true;              // false: only a second program of the same network, which takes masks, was compared
  std::string shared{};  // the cell of the same run whose check before timing it is; empty: its own
};

struct Equivalence {
  bool checked = false;  // false: `reason` says why
  bool passed = false;
  double worst = 0;  // the largest ratio
  std::string reason{};
  std::vector<TensorVerdict> tensors{};
  std::vector<Ties> ties{};
  std::optional<CheckSettings> settings{};
};

// An exam whose bound of a gradient is wider than this, as relative L2, may let a wrong one pass: what passed is equal
// loosely.
inline constexpr double loose_bound = 0.01;
inline bool is_loose(const Equivalence& equivalence) {
  return equivalence.settings && equivalence.settings->loosest > loose_bound;
}
// Whether what passed is the program that was timed.
inline bool is_of_timed_program(const Equivalence& equivalence) {
  return !equivalence.settings || equivalence.settings->timed_program_verified;
}

struct Published {
  std::string metric{};  // which metric of this cell it stands beside
  std::optional<double> value{};
  std::string unit{};
  std::optional<std::string> to{};  // a ratio: to the cell with this id
  std::string source{};             // citation
  std::string statement{};          // what was said, where there is no number
};

// What one step does at least, by the graph, and what this machine was measured to do at most in the
// same run, with the cell's device, precision and threads. 0: not known.
struct Work {
  double flops = 0;           // a multiply-add counts two
  double bytes = 0;           // of a single op: each operand read and each result written once
  double peak_flops = 0;      // a second, of a large matrix product
  double copy_bandwidth = 0;  // bytes read and written a second by a copy that no cache holds
  bool operator==(const Work&) const = default;
};

// A mode and layout of the same backend that a trial of --mode best found faster than the cell's.
struct BetterSetting {
  std::string mode{}, layout{};
  double ratio = 1;    // of its step to that of the cell's setting, in that trial
  std::string date{};  // of the trial: ISO 8601, UTC
  bool operator==(const BetterSetting&) const = default;
};

struct CellReport {
  std::string id{};
  Axes axes{};
  Work work{};
  BackendKind kind{};  // of the backend in this mode
  Status status = Status::failed;
  std::string reason{};
  ReasonCode reason_code = ReasonCode::absent;  // it is ok, or its report is of before
  std::vector<std::string> flags{};
  std::string reproduce{};                                     // a command line
  nlohmann::json hyper_parameters = nlohmann::json::object();  // learning rate, schedule, optimizer
  nlohmann::json settings = nlohmann::json::object();          // all that was in force, given or by default
  std::string backend_version{};
  nlohmann::json libraries = nlohmann::json::array();
  Equivalence equivalence{};
  std::optional<TimeSpent> check_spent{};  // on the check before timing
  std::optional<BetterSetting> better{};   // where a trial on this machine found one
  std::vector<Published> published{};
  Metrics metrics{};
  std::vector<Fork> forks{};
};

// The number of the rules by which flags and metrics are derived from forks. It rises when their meaning changes.
inline constexpr int derivation_rules = 3;

struct Report {
  std::string schema{};  // of the file that it was read from
  int schema_minor = 0;
  int rules = derivation_rules;
  nlohmann::json run;          // command line, config, start, end, commit, dirty flag, version, complete
  nlohmann::json environment;  // measure/environment
  std::vector<CellReport> cells{};
};

}  // namespace assay
