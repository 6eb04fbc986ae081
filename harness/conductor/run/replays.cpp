#include "harness/conductor/run/replays.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/run/cell_folder.hpp"
#include "harness/conductor/run/fork_context.hpp"
#include "harness/conductor/run/fork_folders.hpp"
#include "harness/conductor/run/worker_plan.hpp"
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

namespace {

using Player = Replays::Player;
namespace fs = std::filesystem;
using protocol::Command;
using protocol::Verb;

constexpr double steps_seconds = 0.5, evaluation_seconds = 2;  // of the player, at most
constexpr double start_seconds = 60, run_seconds = 60;         // a player that needs longer has failed
constexpr double evaluation_per_step = 0.5;                    // of the time for one batch

Cell played_by(Cell cell, const Player& player) {
  cell.backend = player.backend;
  cell.axes.backend = player.backend->name;
  cell.axes.mode =
      player.backend->recommended.empty() ? player.backend->modes.front() : player.backend->recommended;
  cell.axes.device = DeviceKind::cpu;
  cell.axes.precision = player.precision;
  return cell;
}

bool can_play(const Cell& cell, const Program& program, const Player& player) {
  const BackendDescription& backend = *player.backend;
  return backend.available() && &backend != cell.backend && contains(backend.tasks, cell.axes.task) &&
         contains(backend.devices, DeviceKind::cpu) && contains(backend.precisions, player.precision) &&
         played_by(cell, player).refusal(program) == nullptr;
}

Player player_of(const Cell& cell, const Program& program, const ForkContext& context) {
  const BackendDescription* oracle = context.registry.oracle();
  if (oracle == nullptr) return {};
  for (const bool is_oracle : {false, true}) {
    for (const PrecisionKind precision : {cell.axes.precision, PrecisionKind::fp32}) {
      for (const BackendDescription& backend : context.registry.backends) {
        const Player player{&backend, precision};
        const bool ours = backend.kind != BackendKind::framework &&
                          backend.folder.parent_path() == oracle->folder.parent_path();
        if (ours && backend.oracle == is_oracle && can_play(cell, program, player)) return player;
      }
    }
  }
  return {};
}

// A run of the player in a folder of its own.
struct Played {
  std::uint64_t seed = 1;
  ClockRequest clock;
  std::optional<fs::path> state{};  // instead of the parameters of the seed
  bool zero_rate = false;           // steps that change no parameter
};

void write_folder(const fs::path& folder, const Cell& cell, const Program& program, const Player& player,
                  const Played& asked, const ForkContext& context) {
  fs::remove_all(folder);
  write_cell_folder(folder, cell, program, FolderPurpose::run, asked.seed, "", context.data, context.weights);
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
  write_atomically(folder / "request.json", request.dump(1), false);
  if (asked.state)
    fs::copy_file(*asked.state, folder / "parameters.safetensors", fs::copy_options::overwrite_existing);
  if (asked.zero_rate)
    write_npy<double>(folder / "schedule.npy", {DType::f64, {1, 2}}, std::vector<double>{0, 1});
}

// The measurements of the player. Throws Error if it failed.
ClockFile played(const fs::path& folder, const Cell& cell, const Player& player, const ForkContext& context) {
  using std::chrono::duration;
  const auto within = [](double seconds) {
    return Deadline{
        std::chrono::steady_clock::now() +
            std::chrono::duration_cast<std::chrono::steady_clock::duration>(duration<double>(seconds)),
        ReasonCode::time_limit};
  };
  const ForkFolders own(context.scratch, "replay", context.keep_folders);
  ConversationPlan plan =
      plan_for(cell, *player.backend, {folder, own.both().temporary}, {Command{Verb::run}}, context);
  plan.cuda.reset();
  plan.worker.environment["OMP_WAIT_POLICY"] = "passive";  // nothing is timed
  plan.sample_seconds = 0;
  ConversationWatch watch;
  watch.interrupts = context.watch.interrupts;
  Worker worker(plan, watch);
  ConversationResult result =
      worker.converse({Command{Verb::compile}}, Afterwards::stay, within(start_seconds));
  if (result.ok()) result = worker.converse({Command{Verb::run}}, Afterwards::quit, within(run_seconds));
  if (!result.ok())
    throw Error(fmt::format("[replay] the backend '{}' did not replay the run: {}", player.backend->name,
                            result.reason));
  return read_clock_file(folder / "results/clock.json");
}

// Blocks of one step each, so that each has a loss.
ClockRequest single_steps(std::int64_t steps) {
  ClockRequest clock{.warm_up = {.min_steps = 1, .min_seconds = 0}, .block_seconds = 0, .blocks = 1};
  clock.steps = std::max<std::int64_t>(1, steps - 1);
  return clock;
}

std::vector<double> losses_of(const ClockFile& clock) {
  std::vector<double> losses;
  for (const Block& block : clock.blocks) losses.push_back(block.loss.value_or(NAN));
  return losses;
}

// Each element of each parameter is off by up to 1e-6 of its value: what the roundings of some steps add up to. Elements
// that are zero (biases) are off by as much of 0.1.
void nudge_parameters(const fs::path& file) {
  constexpr double share = 1e-6, for_zero = 0.1;
  std::vector<HostTensor> tensors = read_safetensors(file);
  for (HostTensor& tensor : tensors) {
    Philox random(1, "replay/" + tensor.name);
    for (float& value : tensor.as<float>()) {
      const double size = value == 0 ? for_zero : std::abs(static_cast<double>(value));
      value = static_cast<float>(value + share * size * random.uniform(-1, 1));
    }
  }
  write_safetensors(file, tensors);
}

// What a replay depends on, but for the seed. A group has one workload, data set, batch, loader and rate.
std::string program_key(const Cell& cell, const Program& program, const Player& player) {
  return sha256(fmt::format("{} {} {} {} {}", player.backend->name, to_string(player.precision), cell.group(),
                            request_json(cell, 0)["loader"].dump(), to_json(program).dump()));
}

}  // namespace

double Replays::pace(const std::string& program_key, const Cell& cell, const Program& program,
                     const Player& player, std::uint64_t seed, const ForkContext& context) {
  const auto [found, is_new] = pace_.try_emplace(program_key, 0);
  if (is_new) {
    const fs::path folder = folder_ / "pace";
    write_folder(folder, cell, program, player, {.seed = seed, .clock = single_steps(2)}, context);
    for (const Block& block : played(folder, cell, player, context).blocks)
      found->second = 1e-9 * static_cast<double>(block.end_ns - block.begin_ns);  // the first one warms up
    fs::remove_all(folder);
  }
  return found->second;
}

std::vector<double> Replays::first_losses(const Cell& cell, const Program& program, std::uint64_t seed,
                                          std::int64_t steps, const ForkContext& context) {
  const Player player = player_of(cell, program, context);
  if (player.backend == nullptr || cell.axes.loader == LoaderKind::native) return {};
  const std::string of_program = program_key(cell, program, player);
  const std::string key = fmt::format("{} {}", of_program, seed);
  const std::lock_guard lock(mutex_);
  const double affordable = steps_seconds / pace(of_program, cell, program, player, seed, context);
  if (affordable < 2) return {};
  if (affordable < static_cast<double>(steps)) steps = static_cast<std::int64_t>(affordable);
  if (kept_.key == key && kept_.asked >= steps) return kept_.losses;
  const fs::path folder = folder_ / "replay";
  write_folder(folder, cell, program, player, {.seed = seed, .clock = single_steps(steps)}, context);
  kept_ = {key, steps, losses_of(played(folder, cell, player, context))};
  fs::remove_all(folder);
  return kept_.losses;
}

std::vector<double> Replays::spread(const Cell& cell, const Program& program, std::uint64_t seed,
                                    std::int64_t steps, const ForkContext& context) {
  const std::vector<double> losses = first_losses(cell, program, seed, steps, context);
  if (losses.empty()) return {};
  const Player player = player_of(cell, program, context);
  const std::lock_guard lock(mutex_);
  std::vector<double>& spread = spread_[program_key(cell, program, player)];
  if (spread.size() < losses.size()) {
    const fs::path folder = folder_ / "replay";
    write_folder(folder, cell, program, player, {.seed = seed, .clock = single_steps(std::ssize(losses))},
                 context);
    nudge_parameters(folder / "parameters.safetensors");
    const std::vector<double> other = losses_of(played(folder, cell, player, context));
    fs::remove_all(folder);
    spread.assign(std::min(other.size(), losses.size()), 0);
    for (std::size_t i = 0; i < spread.size(); ++i)
      spread[i] = std::max(i > 0 ? spread[i - 1] : 0, std::abs(other[i] - losses[i]));
  }
  return spread;
}

Replays::FromState Replays::from_state(const Cell& cell, const Program& program, std::uint64_t seed,
                                       const fs::path& state, std::optional<std::int64_t> slot,
                                       const std::vector<Evaluation>& evaluations,
                                       const ForkContext& context) {
  const Player player = player_of(cell, program, context);
  FromState answers;
  if (player.backend == nullptr) return answers;
  const std::lock_guard lock(mutex_);
  const double step = pace(program_key(cell, program, player), cell, program, player, seed, context);
  const fs::path folder = folder_ / "state";
  if (slot && static_cast<double>(*slot + 1) * step <= steps_seconds) {
    write_folder(folder, cell, program, player,
                 {.seed = seed, .clock = single_steps(*slot + 1), .state = state, .zero_rate = true},
                 context);
    const std::vector<double> losses = losses_of(played(folder, cell, player, context));
    if (std::ssize(losses) > *slot) answers.loss = losses[static_cast<std::size_t>(*slot)];
  }
  double seconds = 0;
  std::vector<std::string> splits;
  for (const Evaluation& evaluation : evaluations) {
    seconds += evaluation_per_step * step * static_cast<double>(evaluation.samples) /
               static_cast<double>(cell.axes.batch);
    if (seconds <= evaluation_seconds) splits.emplace_back(to_string(evaluation.split));
  }
  if (!splits.empty()) {
    write_folder(
        folder, cell, program, player,
        {.seed = seed, .clock = {.kind = ClockKind::epochs, .epochs = 0, .evaluate = splits}, .state = state},
        context);
    answers.evaluations = played(folder, cell, player, context).evaluations;
  }
  fs::remove_all(folder);
  return answers;
}

}  // namespace assay
