#include "harness/conductor/fork/replays.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/batch/plan_file.hpp"
#include "harness/conductor/fork/cell_folder.hpp"
#include "harness/conductor/fork/fork_context.hpp"
#include "harness/conductor/fork/fork_folders.hpp"
#include "harness/conductor/fork/work.hpp"
#include "harness/conductor/fork/worker_plan.hpp"
#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/process/steady_time.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/npy.hpp"
#include "harness/core/io/philox.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/text.hpp"
#include "harness/protocol/request.hpp"

namespace assay {

// Who replays: an engine next to the oracle, never the cell's own backend; else the oracle itself.
struct Replays::Player {
  const BackendDescription* backend = nullptr;
  PrecisionKind precision = PrecisionKind::fp32;
};

// A run of the player.
struct Replays::Played {
  std::uint64_t seed = 1;
  ClockRequest clock{};
  std::optional<std::filesystem::path> state{};  // instead of the parameters of the seed
  int nudge = 0;                                 // of the parameters, by nudge_parameters(); 0: none
  std::optional<NextStep> next{};                // only this step; the state after it is handed over
};

// A worker of the player that stays for the next run of a program.
struct Replays::Stage {
  std::string key;  // program_key()
  ForkFolders folders;
  std::unique_ptr<Worker> worker{};  // absent until it starts
};

namespace {

using Player = Replays::Player;
namespace fs = std::filesystem;
using protocol::Command;
using protocol::Verb;

constexpr double evaluation_seconds = 2;                // of the player, at most
constexpr double start_seconds = 60, run_seconds = 60;  // a player that needs longer has failed
constexpr double evaluation_per_step = 0.5;             // of the time for one batch
constexpr double most_warming = 2;                      // the first step takes up to twice as long as others

Cell played_by(Cell cell, const Player& player) {
  cell.backend = player.backend;
  cell.axes.backend = player.backend->name;
  cell.axes.mode =
      player.backend->recommended.empty() ? player.backend->modes.front() : player.backend->recommended;
  cell.axes.device = DeviceKind::cpu;
  cell.axes.precision = player.precision;
  return cell;
}

bool can_play(const Cell& cell, const Player& player) {
  const BackendDescription& backend = *player.backend;
  return backend.available() && &backend != cell.backend && contains(backend.tasks, cell.axes.task) &&
         contains(backend.devices, DeviceKind::cpu) && contains(backend.precisions, player.precision) &&
         played_by(cell, player).refusal() == nullptr;
}

Player player_of(const Cell& cell, const ForkContext& context) {
  const BackendDescription* oracle = context.registries.backends.oracle();
  if (oracle == nullptr) return {};
  for (const bool is_oracle : {false, true}) {
    for (const PrecisionKind precision : {cell.axes.precision, PrecisionKind::fp32}) {
      for (const BackendDescription& backend : context.registries.backends.backends) {
        const Player player{&backend, precision};
        const bool ours =
            !is_product(backend.kind) && backend.folder.parent_path() == oracle->folder.parent_path();
        if (ours && backend.oracle == is_oracle && can_play(cell, player)) return player;
      }
    }
  }
  return {};
}

Deadline within(double seconds) {
  return {std::chrono::steady_clock::now() + duration_of(seconds), ReasonCode::time_limit};
}

// Whether a step certainly takes longer: then it need not be tried.
bool takes_longer(const Cell& cell, const Player& player, double seconds) {
  // In a second, of one thread: more than the reference and the vector units of today's processors reach.
  const double most_flops = player.backend->oracle ? 2e10 : 2e11;
  return work_of(cell).flops > seconds * most_flops * cell.axes.threads;
}

// Blocks of one step each, so that each has a loss. The first one warms up.
ClockRequest single_steps(std::int64_t steps) {
  ClockRequest clock{.warm_up = {.min_steps = 1, .min_seconds = 0}, .block_seconds = 0, .blocks = 1};
  clock.steps = steps - 1;
  return clock;
}

std::vector<double> losses_of(const ClockFile& clock) {
  std::vector<double> losses;
  for (const Block& block : clock.blocks) losses.push_back(block.loss.value_or(NAN));
  return losses;
}

// Each element of each parameter is off by up to 1e-4 of its value; elements that are zero (biases) by as much of 0.1.
// The signs differ, so a sum of hundreds of products is off by 1e-6 to 1e-5: ten times what libraries differ by. As many
// units change sides of the kink of a ReLU or of a max-pool, which parts the losses by an amount of its own.
// Only parameters: a file of a state has moments and running statistics, too. number: each has its own signs.
void nudge_parameters(const fs::path& file, const Program& program, int number) {
  constexpr double share = 1e-4, for_zero = 0.1;
  std::vector<HostTensor> tensors = read_safetensors(file);
  const std::vector<StateTensor> state = state_tensors(program);
  for (HostTensor& tensor : tensors) {
    const auto known = std::ranges::find(state, tensor.name, &StateTensor::name);
    if (known == state.end() || known->parameter != tensor.name) continue;
    Philox random(static_cast<std::uint64_t>(number), "replay/" + tensor.name);
    for (float& value : tensor.as<float>()) {
      const double size = value == 0 ? for_zero : std::abs(static_cast<double>(value));
      value = static_cast<float>(value + share * size * random.uniform(-1, 1));
    }
  }
  write_safetensors(file, tensors);
}

// The first resident batch is then that of a slot.
void begin_with_slot(const fs::path& folder, std::int64_t slot, std::int64_t batch) {
  std::vector<PlanRow> rows;
  {
    const MappedPlan plan(plan_path(folder, 1));
    rows.assign(plan.rows().begin(), plan.rows().end());
  }
  std::ranges::rotate(rows, rows.begin() + slot * batch % std::ssize(rows));
  write_plan(folder, 1, rows);
}

// What a replay depends on, but for the seed. A group has one workload, data set, batch, loader and rate.
std::string program_key(const Cell& cell, const Player& player) {
  return sha256(fmt::format("{} {} {} {} {}", player.backend->name, to_string(player.precision), cell.group(),
                            request_json(cell, 0)["loader"].dump(), to_json(*cell.program).dump()));
}

void write_folder(const fs::path& folder, const Cell& cell, const Player& player,
                  const Replays::Played& asked, const ForkContext& context) {
  write_cell_folder(folder, cell, FolderPurpose::run, asked.seed, "", context.data, context.weights, {},
                    asked.state.value_or(""));
  const Cell own = played_by(cell, player);
  nlohmann::json request = request_json(cell, asked.seed);
  for (const char* key :
       {"rank", "world", "rendezvous", "profile", "memory_fraction", "memory_cap_bytes", "recompute"})
    request.erase(key);
  request["backend"] = own.axes.backend;
  request["mode"] = own.axes.mode;
  request["device"] = to_string(own.axes.device);
  request["precision"] = to_string(own.axes.precision);
  request["layout"] = "native";
  request["deterministic"] = true;
  if (cell.measure.epochs > 0) request["loader"]["kind"] = to_string(LoaderKind::harness);
  request["clock"] = encode(asked.clock);
  if (asked.nudge > 0) nudge_parameters(folder / "parameters.safetensors", *cell.program, asked.nudge);
  if (asked.next) {
    request["loader"]["resident_batches"] = 1;
    request["hand_over"] = true;
    begin_with_slot(folder, asked.next->slot, cell.axes.batch);
    write_npy<double>(folder / "schedule.npy", {DType::f64, {1, 2}},
                      std::vector{asked.next->learning_rate, static_cast<double>(asked.next->number)});
  }
  write_atomically(folder / "request.json", request.dump(1), false);
}

}  // namespace

Replays::Replays() = default;
Replays::~Replays() = default;

void Replays::end_worker() {
  const std::lock_guard lock(mutex_);
  stage_.reset();
}

ClockFile Replays::played(const std::string& program_key, const Cell& cell, const Player& player,
                          const Played& asked, const ForkContext& context) {
  if (!stage_ || stage_->key != program_key) {
    stage_.reset();
    stage_.reset(new Stage{program_key, {context.scratch, "replay", context.keep_folders}});
  }
  const fs::path& folder = stage_->folders.cell();
  std::unique_ptr<Worker> worker = std::move(stage_->worker);  // given back only if it answers
  const Command first{worker ? Verb::restart : Verb::compile};
  if (worker) remove_earlier(folder);
  write_folder(folder, cell, player, asked, context);
  if (!worker) {
    ConversationPlan plan =
        plan_for(cell, *player.backend, stage_->folders.both(), {Command{Verb::run}}, context);
    plan.cuda.reset();
    plan.worker.environment["OMP_WAIT_POLICY"] = "passive";  // nothing is timed
    plan.sample_seconds = 0;
    ConversationWatch watch;
    watch.interrupts = context.watch.interrupts;
    worker = std::make_unique<Worker>(plan, watch);
  }
  ConversationResult result = worker->converse({first}, Afterwards::stay, within(start_seconds));
  if (result.ok()) result = worker->converse({Command{Verb::run}}, Afterwards::stay, within(run_seconds));
  if (!result.ok())
    throw Error(fmt::format("[replay] the backend '{}' did not replay the run: {}", player.backend->name,
                            result.reason));
  stage_->worker = std::move(worker);
  ClockFile clock = read_clock_file(folder / "results/clock.json");
  if (clock.blocks.size() > 1) {  // the first one warms up
    const Block& last = clock.blocks.back();
    pace_.try_emplace(program_key, 1e-9 * static_cast<double>(last.end_ns - last.begin_ns));
  } else if (!clock.blocks.empty()) {
    const Block& only = clock.blocks.front();
    first_step_.try_emplace(program_key, 1e-9 * static_cast<double>(only.end_ns - only.begin_ns));
  }
  return clock;
}

double Replays::pace(const std::string& program_key, const Cell& cell, const Player& player,
                     std::uint64_t seed, double max_seconds, const ForkContext& context) {
  if (const auto known = pace_.find(program_key); known != pace_.end()) return known->second;
  if (takes_longer(cell, player, max_seconds)) return INFINITY;
  played(program_key, cell, player, {.seed = seed, .clock = single_steps(2)}, context);
  return pace_.at(program_key);
}

Replays::Kept* Replays::first_steps(const Cell& cell, const Player& player, std::uint64_t seed,
                                    std::span<const std::int64_t> asked, const ForkContext& context) {
  if (player.backend == nullptr || cell.axes.loader == LoaderKind::native || asked.empty()) return nullptr;
  const std::string of_program = program_key(cell, player);
  const auto first = first_step_.find(of_program);
  if (first != first_step_.end() && affordable_steps(asked, first->second / most_warming) == 0)
    return nullptr;
  const std::string key = fmt::format("{} {}", of_program, seed);
  const std::int64_t steps =
      affordable_steps(asked, pace(of_program, cell, player, seed, max_replay_seconds / 2, context));
  if (steps < 2) return nullptr;
  if (kept_.key != key || kept_.asked < steps) {
    const Played replay{.seed = seed, .clock = single_steps(steps)};
    kept_ = {
        .key = key, .asked = steps, .losses = losses_of(played(of_program, cell, player, replay, context))};
  }
  return &kept_;
}

std::vector<double> Replays::first_losses(const Cell& cell, std::uint64_t seed,
                                          std::span<const std::int64_t> asked, const ForkContext& context) {
  const Player player = player_of(cell, context);
  const std::lock_guard lock(mutex_);
  const Kept* kept = first_steps(cell, player, seed, asked, context);
  return kept != nullptr ? kept->losses : std::vector<double>{};
}

std::vector<double> Replays::spread(const Cell& cell, std::uint64_t seed, std::span<const std::int64_t> asked,
                                    int nudges, const ForkContext& context) {
  const Player player = player_of(cell, context);
  const std::lock_guard lock(mutex_);
  Kept* kept = first_steps(cell, player, seed, asked, context);
  if (kept == nullptr) return {};
  kept->spread.resize(kept->losses.size(), 0);
  for (; kept->nudges < nudges; ++kept->nudges) {
    const Played replay{
        .seed = seed, .clock = single_steps(std::ssize(kept->losses)), .nudge = kept->nudges + 1};
    const std::vector<double> other =
        losses_of(played(program_key(cell, player), cell, player, replay, context));
    double most = 0;
    for (std::size_t i = 0; i < std::min(other.size(), kept->losses.size()); ++i) {
      most = std::max(most, std::abs(other[i] - kept->losses[i]));
      kept->spread[i] = std::max(kept->spread[i], most);
    }
  }
  return kept->spread;
}

SteppedState Replays::nudged_step(const Cell& cell, std::uint64_t seed, const fs::path& state,
                                  const NextStep& next, int number, const ForkContext& context) {
  const Player player = player_of(cell, context);
  const std::lock_guard lock(mutex_);
  const Played asked{.seed = seed, .clock = single_steps(1), .state = state, .nudge = number, .next = next};
  played(program_key(cell, player), cell, player, asked, context);
  const fs::path& folder = stage_->folders.cell();
  return {TensorFile::read(folder / "parameters.safetensors"),
          TensorFile::read(folder / "results/state.safetensors")};
}

Replays::FromState Replays::from_state(const Cell& cell, std::uint64_t seed, const fs::path& state,
                                       const std::optional<NextStep>& next,
                                       const std::vector<Evaluation>& evaluations,
                                       const ForkContext& context) {
  const Player player = player_of(cell, context);
  FromState answers;
  if (player.backend == nullptr) return answers;
  const std::string key = program_key(cell, player);
  const std::lock_guard lock(mutex_);
  const auto from = [&](Played asked) {
    asked.seed = seed;
    asked.state = state;
    return played(key, cell, player, asked, context);
  };
  constexpr double max_step = max_replay_seconds / 2;
  const auto known = pace_.find(key);
  const bool too_slow =
      known != pace_.end() ? known->second > max_step : takes_longer(cell, player, max_step);
  if (next && !too_slow) {
    const std::vector<double> losses = losses_of(from({.clock = single_steps(1), .next = next}));
    if (!losses.empty()) answers.loss = losses.front();
    answers.after = TensorFile::read(stage_->folders.cell() / "results/state.safetensors");
  }
  if (evaluations.empty()) return answers;
  const double step = pace(key, cell, player, seed, evaluation_seconds / evaluation_per_step, context);
  double seconds = 0;
  std::vector<std::string> splits;
  for (const Evaluation& evaluation : evaluations) {
    seconds += evaluation_per_step * step * static_cast<double>(evaluation.samples) /
               static_cast<double>(cell.axes.batch);
    if (seconds <= evaluation_seconds) splits.emplace_back(to_string(evaluation.split));
  }
  if (!splits.empty())
    answers.evaluations =
        from({.clock = {.kind = ClockKind::epochs, .epochs = 0, .evaluate = splits}}).evaluations;
  return answers;
}

}  // namespace assay
