// request.json of a cell folder as a type (docs/reference/protocol.md): the conductor writes it, the worker
// and the batch library read it. Unknown fields are ignored, so that both sides may add fields.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/domain.hpp"
#include "harness/core/json/fields.hpp"

namespace assay {

enum class ClockKind { steps, epochs };
template <>
inline constexpr auto words<ClockKind> =
    std::array{Word{ClockKind::steps, "steps"}, Word{ClockKind::epochs, "epochs"}};

struct LoaderRequest {
  LoaderKind kind = LoaderKind::resident;
  int workers = 1;
  int prefetch = 4;
  std::int64_t resident_batches = 8;
};
inline Description describe(Of<LoaderRequest>) {
  return fields(
      "loader_request", "Where batches come from.",
      field("kind", &LoaderRequest::kind, "Which loader.").optional(),
      field("workers", &LoaderRequest::workers, "Threads that load.").between(0, 256).optional(),
      field("prefetch", &LoaderRequest::prefetch, "Batches loaded ahead.").between(1, 1024).optional(),
      field("resident_batches", &LoaderRequest::resident_batches,
            "Batches that stay in memory and are rotated.")
          .between(1, 100'000)
          .optional());
}

struct WarmUpRequest {
  std::int64_t min_steps = 10;
  double min_seconds = 0.5;
};
inline Description describe(Of<WarmUpRequest>) {
  return fields(
      "warm_up_request", "Untimed steps before the first block.",
      field("min_steps", &WarmUpRequest::min_steps, "Minimum of steps.").between(1, 10'000'000).optional(),
      field("min_seconds", &WarmUpRequest::min_seconds, "Minimum of seconds.").between(0, 86'400).optional());
}

struct ClockRequest {
  ClockKind kind = ClockKind::steps;
  // steps
  WarmUpRequest warm_up{};
  double block_seconds = 0.1;
  std::int64_t blocks = 10;
  std::optional<std::int64_t>
      steps{};  // exact number of timed steps, instead of `blocks`; 0: only the warm-up
  // epochs
  int epochs = 1;
  std::vector<std::string> evaluate{};  // splits, after each epoch

  static constexpr bool in_steps(const ClockRequest& clock) { return clock.kind == ClockKind::steps; }
  static constexpr bool in_epochs(const ClockRequest& clock) { return clock.kind == ClockKind::epochs; }
};
inline Description describe(Of<ClockRequest>) {
  return fields(
      "clock_request", "What is timed.",
      field("kind", &ClockRequest::kind, "What the fork counts.").optional(),
      field("warm_up", &ClockRequest::warm_up, "Of kind steps: the warm-up.")
          .written_if(&ClockRequest::in_steps),
      field("block_seconds", &ClockRequest::block_seconds, "For kind steps: length of a block.")
          .between(0, 86'400)
          .written_if(&ClockRequest::in_steps),
      field("blocks", &ClockRequest::blocks, "For kind steps: number of timed blocks.")
          .between(1, 100'000)
          .written_if(&ClockRequest::in_steps),
      field("steps", &ClockRequest::steps,
            "For kind steps: total timed steps, instead of `blocks`; 0: only the warm-up.")
          .between(0, 10'000'000)
          .left_out_by_default(),
      field("epochs", &ClockRequest::epochs,
            "For kind epochs: number of epochs; 0: the splits are evaluated once, without training.")
          .between(0, 100'000)
          .written_if(&ClockRequest::in_epochs),
      field("evaluate", &ClockRequest::evaluate, "For kind epochs: splits evaluated after each.")
          .written_if(&ClockRequest::in_epochs));
}

struct CheckRequest {
  std::int64_t distinct = 4;
  int perturbations = 4;
};
inline Description describe(Of<CheckRequest>) {
  return fields(
      "check_request", "The equivalence check: the exam.",
      field("distinct", &CheckRequest::distinct, "Distinct samples in a batch of the exam.").optional(),
      field("perturbations", &CheckRequest::perturbations, "Perturbed runs of the oracle.").optional());
}

struct OracleRequest {
  PrecisionKind precision = PrecisionKind::fp32;
  int perturbations = 4;
  std::uint64_t seed = 1;
  int slices = 1;
};
inline Description describe(Of<OracleRequest>) {
  return fields(
      "oracle_request", "How an oracle answers.",
      field("precision", &OracleRequest::precision, "The precision that its perturbed runs emulate."),
      field("perturbations", &OracleRequest::perturbations, "Perturbed runs.").between(0, 1000).optional(),
      field("seed", &OracleRequest::seed, "The seed of the perturbations.").optional(),
      field(
          "slices", &OracleRequest::slices,
          "Equal parts of each batch, which batch norm normalises by their own statistics: the ranks of the cell.")
          .between(1, 65536)
          .left_out_by_default());
}

struct OpRequest {
  std::string size{};
  std::optional<CacheState> cache{};
};
inline Description describe(Of<OpRequest>) {
  return fields("op_request", "Which single op.",
                field("size", &OpRequest::size, "Its size, in the words of the workload.").optional(),
                field("cache", &OpRequest::cache, "Whether operands are in the cache.").optional());
}

struct CellRequest {
  int protocol = 0;
  std::string backend{}, workload{};
  Task task = Task::train;
  std::string mode{};
  DeviceKind device = DeviceKind::cpu;
  PrecisionKind precision = PrecisionKind::fp32;
  std::string layout = "native";
  std::int64_t batch = 0;
  int threads = 1;
  std::uint64_t seed = 1;
  int rank = 0, world = 1;   // its place among the workers that train one model together
  std::string rendezvous{};  // where these find each other: "127.0.0.1:29400"; empty if it trains alone
  bool deterministic = false;
  bool profile = false;
  bool hand_over = false;                   // the state after the run is written to results/state.safetensors
  std::optional<double> memory_fraction{};  // share of the device's memory; absent: no limit
  std::optional<std::int64_t> memory_cap_bytes{};  // absent: no limit
  LoaderRequest loader{};
  std::optional<ClockRequest> clock{};
  CheckRequest check{};
  std::optional<OracleRequest> oracle{};
  std::optional<OpRequest> op{};
};
inline Description describe(Of<CellRequest>) {
  return fields(
      "request", "A cell, and how to run it. It is request.json.",
      field("protocol", &CellRequest::protocol, "The version of the protocol."),
      field("backend", &CellRequest::backend, "The name of the backend.").optional(),
      field("workload", &CellRequest::workload, "The name of the workload.").optional(),
      field("task", &CellRequest::task, "What is computed."),
      field("mode", &CellRequest::mode, "The backend's word for how it executes, such as `eager`."),
      field("device", &CellRequest::device, "Where it is computed.").optional(),
      field("precision", &CellRequest::precision, "In what it is computed."),
      field("layout", &CellRequest::layout, "The layout of activations; `native` is the backend's own.")
          .optional(),
      field("batch", &CellRequest::batch, "Samples per step.").between(1, 1 << 24),
      field("threads", &CellRequest::threads, "Threads that compute.").between(1, 1 << 16).optional(),
      field("seed", &CellRequest::seed,
            "Where the worker's random numbers begin, such as masks of dropout; another one for each rank.")
          .optional(),
      field("rank", &CellRequest::rank, "Its number among the workers that train one model together, from 0.")
          .between(0, 65'535)
          .left_out_by_default(),
      field("world", &CellRequest::world, "The number of these workers.")
          .between(1, 65'536)
          .left_out_by_default(),
      field("rendezvous", &CellRequest::rendezvous,
            "Where they find each other: `127.0.0.1:29400`, an address of rank 0 and a free port.")
          .left_out_by_default(),
      field("deterministic", &CellRequest::deterministic,
            "Whether results must be the same bits in each run.")
          .optional(),
      field("profile", &CellRequest::profile, "Whether each operator is timed, too.").optional(),
      field(
          "hand_over", &CellRequest::hand_over,
          "Whether the state after the run is written to `results/`, as `state.safetensors`, before the answer `ran`.")
          .left_out_by_default(),
      field("memory_fraction", &CellRequest::memory_fraction,
            "The share of the device's memory that it may take; null: no limit.")
          .optional(),
      field("memory_cap_bytes", &CellRequest::memory_cap_bytes,
            "The bytes of the device's memory that it may take; null: no limit.")
          .optional(),
      field("loader", &CellRequest::loader, "Source of the batches.").optional(),
      field("clock", &CellRequest::clock, "What to time.").left_out_by_default(),
      field("check", &CellRequest::check, "The equivalence check.").optional(),
      field("oracle", &CellRequest::oracle, "Only if the command `oracle` will be sent.")
          .left_out_by_default(),
      field("op", &CellRequest::op, "Only if the workload is a single op.").left_out_by_default());
}

// Throws JsonError with the file and the field if a field is missing, has another type or is out of its
// range, also if the protocol has another version, or if there is no such rank.
CellRequest read_request(const std::filesystem::path& file);

}  // namespace assay
