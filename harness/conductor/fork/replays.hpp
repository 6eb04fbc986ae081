// Another backend of ours computes what a worker reported: the conductor knows the parameters, the schedule and the
// batches of a run, so no worker has to judge itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/conductor/check/audit.hpp"
#include "harness/conductor/check/tensor_file.hpp"
#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/core/tensor.hpp"
#include "harness/protocol/clock_file.hpp"

namespace assay {

struct ForkContext;

// Several threads may use it at a time.
class Replays {
 public:
  struct Player;
  struct Played;

  Replays();
  ~Replays();

  // The losses after each of the first steps of a cell that trains without masks, with the parameters and batches of a
  // seed, up to one of the steps `asked` (ascending): affordable_steps(). Cells that differ only in their backend share a
  // replay, if it is another backend's than theirs. Empty if no backend can replay the cell in time, or if its own loader
  // chooses the batches.
  std::vector<double> first_losses(const Cell& cell, std::uint64_t seed, std::span<const std::int64_t> asked,
                                   const ForkContext& context);

  // For each of these losses, how far apart it or an earlier one is if all parameters are off by up to 1e-4: the most of
  // so many further replays, each with its own signs, kept as long as that of the losses.
  std::vector<double> spread(const Cell& cell, std::uint64_t seed, std::span<const std::int64_t> asked,
                             int nudges, const ForkContext& context);

  // The step after a state, on the resident batch of a slot.
  struct NextStep {
    std::int64_t slot = 0;
    double learning_rate = 0;
    std::int64_t number = 1;
  };
  // What a backend of ours computes from a state (parameters, running statistics, moments).
  struct FromState {
    std::optional<double> loss{};           // of the next step
    TensorFile after{};                     // the state after it, if it has a loss
    std::vector<Evaluation> evaluations{};  // again
  };
  // `evaluations`: those that the worker made in this state. Leaves out what no backend can, or what takes too long.
  FromState from_state(const Cell& cell, std::uint64_t seed, const std::filesystem::path& state,
                       const std::optional<NextStep>& next, const std::vector<Evaluation>& evaluations,
                       const ForkContext& context);

  // That step again with other parameters: each number has its own signs. The parameters are those of `before`; the
  // loss is left out. Throws Error if the player fails.
  SteppedState nudged_step(const Cell& cell, std::uint64_t seed, const std::filesystem::path& state,
                           const NextStep& next, int number, const ForkContext& context);

  // Ends the worker that computes: between the calls about one fork it stays, so that it starts and compiles once, and
  // it may not stay while something is timed.
  void end_worker();

 private:
  struct Stage;
  struct Kept {
    std::string key;
    std::int64_t asked = 0;
    std::vector<double> losses{};
    std::vector<double> spread{};  // of that many nudged replays
    int nudges = 0;
  };

  // The replay of a run, at least up to the last affordable step; null if there is none. With mutex_ held.
  Kept* first_steps(const Cell& cell, const Player& player, std::uint64_t seed,
                    std::span<const std::int64_t> asked, const ForkContext& context);
  // The measurements of a run. Throws Error if the player fails.
  ClockFile played(const std::string& program_key, const Cell& cell, const Player& player,
                   const Played& asked, const ForkContext& context);
  // Seconds of one step of the player; infinite if they are certainly more than `max_seconds`.
  double pace(const std::string& program_key, const Cell& cell, const Player& player, std::uint64_t seed,
              double max_seconds, const ForkContext& context);

  std::mutex mutex_;
  std::unique_ptr<Stage> stage_;
  Kept kept_;                                 // the last: the backends of a round follow each other
  std::map<std::string, double> pace_;        // seconds of a step, by program; from the first run
  std::map<std::string, double> first_step_;  // of the first one, where it was the only one
};

}  // namespace assay
