// One point of the matrix with everything that is needed to measure it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/conductor/config/rate_schedule.hpp"
#include "harness/conductor/config/run_settings.hpp"
#include "harness/conductor/data/epoch_plan.hpp"
#include "harness/graph/program.hpp"
#include "harness/report/report.hpp"
#include "workloads/ops/op_workload.hpp"
#include "workloads/workload.hpp"

namespace assay {

struct Dataset;

// What a fork times, and how.
struct MeasurePlan {
  std::int64_t epochs = 0;  // above 0: time that many from a cold start; else blocks of steps
  std::int64_t steps = 0;   // above 0: time that many steps in total instead of `blocks`
  std::int64_t blocks = 10;
  double block_seconds = 0.1;
  std::int64_t warm_up_steps = 10;
  double warm_up_seconds = 0.5;
  std::int64_t resident_batches = 8;
};

// Sets the axes that have a field from `point` (one value per axis; empty: not given).
void set_fields(Axes& axes, const OptionValues& point);

// The fields that only the cell of a network has: how it is trained, and on which samples.
struct NetworkCell {
  const Workload* workload = nullptr;  // of the registry that the matrix was made with
  double weight_decay = 0;
  double clip_norm = 0;
  double epsilon = 0;        // of the optimizer; 0: the default
  double norm_momentum = 0;  // of batch norms; 0: that of each layer
  std::string initial;       // "own" or a word of InitialScheme; empty: the initializers of the workload
  bool raw_pixels = false;   // bytes of images are not normalised
  double learning_rate = 0;  // the base rate of the schedule
  RateSchedule schedule;
  Augmentation augmentation;      // of the training images
  bool sparse_embedding = false;  // row-sparse gradients of the embeddings' tables
  // Read from the files of a data set that has no fixed shape, if they are present; else empty and 0.
  Shape own_sample_shape;
  std::int64_t own_classes = 0;
  std::int64_t own_positions = 0;  // labels of a sample; 0: one
  // Above 0: pixels per side of the images, tokens of a sequence, and number of classes, if the data set does
  // not fix them.
  std::int64_t image_size = 0, sequence_length = 0, classes = 0;

  static constexpr bool has_roofline = false;
  // Whether each step computes a loss.
  static bool has_loss(const Axes& axes) { return axes.task == Task::train; }
  // What the network is built for: the batch, the data set and the optimizer. Throws GraphError if the network does not
  // take samples of the data set.
  NetworkForm form(const Axes& axes) const;
  // Empty for task infer.
  nlohmann::json hyper_parameters(const Axes& axes) const;

 private:
  void check_labels(const Dataset& dataset, const Axes& axes) const;
};

// The cell of a single op at one size: it has operands instead of a data set, and no training settings.
struct OpCell {
  const OpWorkload* op = nullptr;  // of the registry that the matrix was made with

  static constexpr bool has_roofline = true;
  static bool has_loss(const Axes&) { return false; }
  static nlohmann::json hyper_parameters(const Axes& axes);
};

struct Cell {
  Axes axes;
  std::variant<NetworkCell, OpCell> subject;
  std::string id;
  std::shared_ptr<const Program> program;  // made with the matrix; cells that differ in the backend share it
  const BackendDescription* backend = nullptr;  // of the registry that the matrix was made with
  MeasurePlan measure;
  bool check = true;
  // What starts several ranks, and its further arguments, split at blanks.
  Launcher launcher = Launcher::fork;
  std::string launcher_arguments, launcher_prefix;
  std::string
      rendezvous;  // the IPv4 address of rank 0 at which they find each other; empty: chosen by their machines
  std::int64_t distinct = 4;
  bool profile = false;
  std::vector<Published> published;
  std::size_t row = 0;     // of the config's rows: the one that made the cell
  bool candidate = false;  // one of the modes and layouts from which --mode best chooses the fastest
  // Not ok: the cell cannot be run here; `reason` says why. It still gets a row in the report.
  Status status = Status::ok;
  std::string reason;
  ReasonCode reason_code = ReasonCode::absent;
  // The backend does not run such a cell in this mode, or in this layout.
  bool refused_for_mode = false, refused_for_layout = false;

  NetworkCell& network() { return std::get<NetworkCell>(subject); }
  const NetworkCell& network() const { return std::get<NetworkCell>(subject); }
  bool runnable() const { return status == Status::ok; }
  // Cells of one group are compared with each other. The name is the id without backend, mode, layout and
  // device.
  std::string group() const;
  // The number of threads that compute: the budget without the loader's threads, at least one.
  int compute_threads() const;
  // The network's graph, or the single op at the cell's size, as the axes are now. Throws GraphError.
  Program build() const;
  // Whose initial values it starts from; nullopt: those of the workload.
  std::optional<InitialScheme> initial_scheme() const;
  // Whether it reads samples of a data set; the inputs of a single op, and several inputs of a network, are drawn.
  bool reads_dataset() const;
  // Whether its rates are compared with the machine's peak and copy bandwidth: true for single ops.
  bool has_roofline() const;
  bool has_loss() const;
  // The training settings, for the report: {"learning_rate", "schedule", "augmentation", "optimizer": {...}};
  // empty for task infer.
  nlohmann::json hyper_parameters() const;
  // The rule in backend.json by which the backend rejects the cell; nullptr without one.
  const Refusal* refusal() const;
  // A command line that measures only this cell, with the parameters and the sample order of that seed. Paths are those
  // that the run was given.
  std::string reproduce(const RunSettings& settings, std::uint64_t seed) const;
};

// Bytes without which the cell cannot be run on any backend: parameters and state in the conductor and in the worker,
// gradients and moments (task train), and the largest other tensor.
std::int64_t least_memory(const Program& program, Task task);

// The schedule: one row per step with learning rate and step count, float64.

// Maximum number of steps of a fork: exact for epochs; for blocks sized by time, the number of the shortest
// conceivable steps that fit.
std::int64_t schedule_rows(const MeasurePlan& measure, std::int64_t batch, std::int64_t training_samples);

// (rows, 2), row-major: the rate of each step and its count 1, 2, 3, ...
std::vector<double> training_schedule(const RateSchedule& schedule, double base_rate, std::int64_t rows,
                                      std::int64_t steps_per_epoch);

}  // namespace assay
