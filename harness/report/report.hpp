// The report in memory. report_fields.hpp describes it, report_json.hpp reads and writes it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/words.hpp"
#include "harness/machine/core_probe.hpp"
#include "harness/machine/gpu_reading.hpp"
#include "harness/machine/machine_record.hpp"
#include "harness/protocol/clock_file.hpp"
#include "harness/protocol/message.hpp"
#include "harness/report/axes.hpp"
#include "harness/report/metric.hpp"
#include "harness/report/run_record.hpp"
#include "harness/report/status.hpp"

namespace assay {

// A sample of the machine and the worker, by the conductor.
struct MachineSample {
  std::int64_t time_ns = 0;
  double worker_cpu = 0;        // cores busy in the worker and the processes below it since the last sample
  std::int64_t worker_rss = 0;  // sum over these processes
  double frequency_hz = 0;
  int processes = 1;                // number of these processes
  std::optional<GpuReading> gpu{};  // for a cell on cuda
};

// Where the host had the worker's processors before and after the timed run.
struct CorePlacement {
  CoreReading before{}, after{};
  bool operator==(const CorePlacement&) const = default;
};

// Wall time, in seconds, of the conductor's work for one worker.
struct TimeSpent {
  double folder = 0;    // writing the cell folder
  double start = 0;     // of the process, up to its hello
  double compile = 0;   // the answer to `compile`, or to `restart`
  double run = 0;       // the answer to `run`: staging, warm-up, timed blocks, evaluations
  double check = 0;     // the answer to `check` or `verify`
  double exchange = 0;  // the answer to `exchange`
  double device = 0;    // the answer to `time_device`
  double judge = 0;     // the oracle's answers, and comparing with them
  double quit = 0;      // of the process
  bool operator==(const TimeSpent&) const = default;
};

// What one of several ranks measured.
struct RankRecord {
  int rank = 0;
  std::string cores{};  // "0,1"; "inherited": not pinned
  std::vector<Block> blocks{};
  std::optional<Disturbance> disturbance{};
  double compile_seconds = 0;
  std::int64_t host_peak_rss = 0, host_start_rss = 0;
  std::string parameters_digest{};
  std::optional<protocol::Exchanged> exchange{};  // absent: the rank was not asked
  // Of ranks on several machines:
  std::string host{};                        // the name of its machine, in the report's hosts
  std::optional<CorePlacement> placement{};  // of the first rank of a machine: of the processors of its ranks
  std::vector<MachineSample> samples{};      // of its machine's clock
};

struct Fork {
  int round = 0;
  std::uint64_t seed = 0;
  std::string start{};           // ISO 8601, UTC; empty in older reports
  std::optional<int> order{};    // place among all forks of the run, from 0
  std::optional<int> session{};  // index into the run's sessions
  Status status = Status::failed;
  std::string reason{};
  ReasonCode reason_code = ReasonCode::absent;  // absent: it is ok, or the report is older
  std::string log_tail{};
  std::vector<std::string> flags{};     // values of quality_flag: reasons to doubt its numbers
  std::vector<std::string> warnings{};  // other reasons, which do not affect its rank
  double compile_seconds = 0;           // for a resident fork: of the process that an earlier fork started
  bool resident = false;                // it ran in the process of an earlier fork
  bool examined = false;                // an exam followed its timed steps
  std::optional<TimeSpent> spent{};
  std::vector<Block> blocks{};      // of several ranks: joined_blocks() of theirs
  std::vector<RankRecord> ranks{};  // in their order; empty: one rank
  // Of several ranks: what the loopback interface sent during the run.
  std::optional<std::int64_t> loopback_bytes{};
  std::optional<Disturbance> disturbance{};
  std::optional<CorePlacement> placement{};
  std::optional<std::int64_t>
      quota_stopped_ns{};  // of the run; of several ranks: of the one that it stopped most
  std::vector<Evaluation> evaluations{};
  std::vector<std::int64_t> latencies_ns{};
  std::int64_t latencies_seen = 0;  // number of steps from which `latencies_ns` is sampled; 0: unknown
  std::vector<std::int64_t> prefills_ns{};
  std::vector<ResultReading> readings{};  // without training: of some steps, drawn at random
  std::optional<bool> steady{};           // whether the time of a step was steady when timing began
  std::vector<MachineSample> samples{};
  std::optional<GpuUse> gpu{};  // for a timed cell on cuda
  std::int64_t host_peak_rss = 0;
  std::int64_t host_start_rss = 0;
  std::map<std::string, std::int64_t> memory{};   // as the worker names it
  std::map<std::string, std::string> settings{};  // observed
  std::map<std::string, std::string>
      variables{};  // of the environment, that affect speed (machine/environment.hpp)
  std::optional<std::vector<protocol::Library>> libraries{};  // absent: those of the cell
  // What its worker executed and read; empty in older reports. See backend_digest.hpp and DatasetRecord.
  std::string adapter_digest{}, program_digest{}, data_digest{};
  std::string parameters_digest{};  // sha256 of the final state: equal forks are bit-identical
  std::vector<protocol::OperatorTime> operators{};      // the per-op profile, if requested
  std::optional<protocol::DeviceTimed> device_timed{};  // absent: it was not asked
};

struct TensorVerdict {
  std::string name{};  // "first/moment/conv1.weight.m", "last/loss"
  double max_error = 0, max_bound = 0;
  double l2_error = 0, l2_bound = 0;
  double ratio = 0;  // the worse of the two errors over its bound; above 1 is wrong
};

// The ratio of a missing, misshapen or non-finite tensor. Finite, because a report is strict JSON.
inline constexpr double beyond_measure = 1e9;
// error / bound, at most beyond_measure. 0 without an error; beyond_measure if the error is not finite or nothing is
// allowed.
inline double ratio_of(double error, double bound) {
  if (!std::isfinite(error)) return beyond_measure;
  if (error == 0) return 0;
  return bound > 0 ? std::min(error / bound, beyond_measure) : beyond_measure;
}

// The distance of the check to the kinks of an op: of `elements` (of ReLUs, windows of max-pools), `tipped`
// fell on another side in at least one of the oracle's perturbed runs.
struct Ties {
  std::string op{};  // "relu", "max_pool"
  std::int64_t tipped = 0, elements = 0;
};

// The settings of the check.
struct CheckSettings {
  std::uint64_t seed = 0;          // seed of its parameters and inputs
  std::int64_t distinct = 0;       // distinct samples in its batch
  int perturbations = 0;           // perturbed runs of the oracle
  int version = 0;                 // version of the check's rules
  bool oracle_cached = false;      // the oracle's answers were not made in this run
  double loosest = 0;              // the widest bound of a gradient, relative L2
  std::string loosest_gradient{};  // the parameter with that bound
  bool timed_program_verified =
      true;              // false: only a second program of the same network, which takes masks, was compared
  std::string shared{};  // the cell of the same run whose check before timing is used; empty: its own
};

struct Equivalence {
  bool checked = false;  // false: `reason` says why
  bool passed = false;
  double worst = 0;  // the largest ratio
  std::string reason{};
  std::vector<TensorVerdict> tensors{};
  std::vector<Ties> ties{};
  std::int64_t unjudged = 0;  // tensors
  std::optional<CheckSettings> settings{};
  // The first tensor of the state that the timed steps left with values that are not finite; not in the report.
  std::string not_finite{};
};

// If the bound of a gradient in an exam is wider than this, as relative L2, a wrong gradient may pass: then
// the cell is only loosely equal.
inline constexpr double loose_bound = 0.01;
inline bool is_loose(const Equivalence& equivalence) {
  return equivalence.settings && equivalence.settings->loosest > loose_bound;
}
// Whether the program that passed is the timed program.
inline bool is_of_timed_program(const Equivalence& equivalence) {
  return !equivalence.settings || equivalence.settings->timed_program_verified;
}

struct Published {
  std::string metric{};  // the metric of this cell that it is about
  std::optional<double> value{};
  std::string unit{};
  std::optional<std::string> to{};  // if it is a ratio: the id of the other cell
  std::string source{};             // citation
  std::string statement{};          // the words, if it is not a number
};

// The minimum work of one step, by the graph, and the maximum speed of this machine, measured in the same run
// with the cell's device, precision and threads. 0: unknown.
struct Work {
  double flops = 0;           // a multiply-add counts as two
  double bytes = 0;           // for a single op: each operand read and each result written once
  double peak_flops = 0;      // per second, of a large matrix product
  double copy_bandwidth = 0;  // bytes read and written per second by a copy that exceeds the caches
  bool operator==(const Work&) const = default;
};

// A mode and layout of the same backend that was faster than the cell's in a trial of --mode best.
struct BetterSetting {
  std::string mode{}, layout{};
  double ratio = 1;                        // its step time over that of the cell's setting, in that trial
  std::optional<double> lower{}, upper{};  // of the ratio; absent in older reports
  std::string date{};                      // date of the trial: ISO 8601, UTC
  bool operator==(const BetterSetting&) const = default;
};

struct CellReport {
  std::string id{};
  Axes axes{};
  Work work{};
  BackendKind kind{};  // kind of the backend in this mode
  Status status = Status::failed;
  std::string reason{};
  ReasonCode reason_code = ReasonCode::absent;  // absent: it is ok, or the report is older
  std::vector<std::string> flags{};
  std::string reproduce{};                                     // a command line
  nlohmann::json hyper_parameters = nlohmann::json::object();  // learning rate, schedule, optimizer
  nlohmann::json settings = nlohmann::json::object();          // all settings, given or by default
  std::string backend_version{};
  std::vector<protocol::Library> libraries{};
  Equivalence equivalence{};
  std::optional<TimeSpent> check_spent{};  // time of the check before timing
  std::optional<BetterSetting> better{};   // if a trial on this machine found one
  std::optional<int> environment{};        // index into the report's environments, if it has several
  std::vector<Published> published{};
  Metrics metrics{};
  std::vector<Fork> forks{};
};

// The number of the rules that derive flags and metrics from forks. It rises when their meaning changes.
inline constexpr int derivation_rules = 4;

// A machine on which ranks of a cell ran.
struct HostRecord {
  std::string name{};
  MachineRecord machine{};
};

struct Report {
  std::string schema{};  // schema of the file that it was read from
  int schema_minor = 0;
  int rules = derivation_rules;
  RunRecord run{};
  MachineRecord environment{};
  // A merged report: the machine of each part; `environment` is the first. Empty: all cells ran in
  // `environment`. Numbers of two of these machines are never paired.
  std::vector<MachineRecord> environments{};
  std::vector<HostRecord> hosts{};  // of cells whose ranks were on several machines, by name
  std::vector<CellReport> cells{};
};

}  // namespace assay
