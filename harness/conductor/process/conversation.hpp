// Talks with a worker: says commands, waits for their events, and turns all that can go wrong into a status.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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
  std::string reason;                                  // empty when ok
  ReasonCode reason_code = ReasonCode::worker_failed;  // absent when ok
  // The command that was not answered; absent: before the first, or ok.
  std::optional<protocol::Verb> failed_at;
  std::string log_tail;
  std::optional<protocol::Hello> hello;
  std::optional<protocol::Compiled> compiled;
  std::optional<protocol::Ran> ran;
  std::vector<MachineSample> samples;                  // during `run` alone
  std::optional<GpuUse> gpu;                           // where the plan asks for it
  double start_seconds = 0, quit_seconds = 0;          // from its start to its hello; of quitting
  std::map<protocol::Verb, double> command_seconds{};  // what each command took
  // From the command `run` to its answer, by this process's clock.
  std::optional<std::pair<std::chrono::steady_clock::time_point, std::chrono::steady_clock::time_point>>
      ran_between{};
  std::optional<int> strayed_to{};  // during `run`: see WorkerSampler::processor_outside()
  WorkerExit exit;                  // of a worker that has ended
  // exit.peak_rss, or the largest sum over the worker and the processes below it in a sample of any phase.
  std::int64_t peak_rss = 0;

  bool ok() const { return status == Status::ok; }
};

enum class Afterwards { quit, stop, stay };

// A worker that may be talked with more than once. It is gone, with its process group, when this is.
class Worker {
 public:
  // Starts nothing yet.
  Worker(const ConversationPlan& plan, const ConversationWatch& watch);
  ~Worker();
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;

  // Says the commands, and before the first of all waits for hello. Afterwards the worker quits, stops (SIGSTOP) until
  // it is talked with again, or stays as it is; after a failure it is gone. What it said in hello and when it compiled stays in every
  // result. Never throws for what a worker does. Waits in poll().
  ConversationResult converse(const std::vector<protocol::Command>& commands, Afterwards afterwards,
                              std::optional<std::chrono::steady_clock::time_point> deadline);

 private:
  class Conversation;
  ConversationPlan plan_;
  ConversationWatch watch_;
  std::unique_ptr<Conversation> conversation_;
};

// With a worker of its own: the plan's commands, then quit.
ConversationResult converse(const ConversationPlan& plan, const ConversationWatch& watch = {});

}  // namespace assay
