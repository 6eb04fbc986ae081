// One worker from start to end: says its commands, waits for their events, and turns all that can go wrong
// into a status.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/process/interrupts.hpp"
#include "harness/conductor/process/worker_process.hpp"
#include "harness/machine/gpu_sampler.hpp"
#include "harness/protocol/message.hpp"
#include "harness/report/report.hpp"

namespace assay {

struct ConversationPlan {
  WorkerStart worker;
  std::string backend;                      // who must answer
  std::vector<protocol::Command> commands;  // in order; quit comes by itself
  double phase_seconds = 600;               // for hello and each command
  // When all of it must be over, whatever the phases may take; afterwards it is `interrupted`.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  double sample_seconds = 0.25;          // between samples of the worker while it runs; 0: none
  std::optional<CudaVisibility> cuda{};  // samples the GPU that this makes the worker's first; absent: none
};

// Called from the conversation; may be empty.
struct ConversationWatch {
  std::function<void(const protocol::Progress&)> progress;
  std::function<void(protocol::Verb)> phase;
  const Interrupts* interrupts = nullptr;
};

struct ConversationResult {
  Status status = Status::failed;
  std::string reason;  // empty when ok
  // The command that was not answered; absent: before the first, or ok.
  std::optional<protocol::Verb> failed_at;
  std::string log_tail;
  std::optional<protocol::Hello> hello;
  std::optional<protocol::Compiled> compiled;
  std::optional<protocol::Ran> ran;
  std::vector<MachineSample> samples;  // during `run` alone
  std::optional<GpuUse> gpu;           // where the plan asks for it
  WorkerExit exit;
  // exit.peak_rss, or the largest sum over the worker and the processes below it in a sample of any phase.
  std::int64_t peak_rss = 0;

  bool ok() const { return status == Status::ok; }
};

// Never throws for what a worker does. Waits in poll().
ConversationResult converse(const ConversationPlan& plan, const ConversationWatch& watch = {});

}  // namespace assay
