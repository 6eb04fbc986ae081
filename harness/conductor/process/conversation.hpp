// Talks with a worker: sends commands, waits for their events, and turns every failure into a status.
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
#include "harness/conductor/process/standstill.hpp"
#include "harness/conductor/process/worker_process.hpp"
#include "harness/machine/gpu_sampler.hpp"
#include "harness/protocol/message.hpp"
#include "harness/report/report.hpp"

namespace assay {

// The latest end of a conversation, and whose limit it is: quick_time_spent or max_time_spent.
struct Deadline {
  std::chrono::steady_clock::time_point at;
  ReasonCode code = ReasonCode::quick_time_spent;
};

struct ConversationPlan {
  WorkerStart worker;
  std::string backend;                      // the backend that must answer
  std::vector<protocol::Command> commands;  // in order; without quit, which is added
  double phase_seconds = 600;               // maximum for hello and for each command
  double quit_seconds = 10;                 // maximum from `quit` to the worker's end
  // Latest end of the conversation, in addition to the limits of the phases; after it the result is
  // `interrupted`.
  std::optional<Deadline> deadline{};
  double sample_seconds = 0.25;          // between samples of the worker while it runs; 0: none
  std::optional<CudaVisibility> cuda{};  // chooses the worker's first GPU, to sample it; absent: none
  std::vector<int> placed{};             // processors whose placement is read around the run; none: it is not
};

// The command `run` up to now. `waited_share`: the time in which the worker's threads, and those of the processes below it,
// were ready and had no processor, over the wall time; above 1 if several waited at once. 0 if it is unknown. It reads
// files for each thread, about 10 us.
struct RunSoFar {
  double seconds = 0;
  std::function<double()> waited_share;
};

// Callbacks of the conversation; may be empty.
struct ConversationWatch {
  std::function<void(const protocol::Progress&)> progress;
  // With each progress of the command `run`, which a worker reports between blocks and counts within an epoch. Why the conversation must end (`max_time_spent`); empty: it goes on.
  std::function<std::string(const protocol::Progress&, const RunSoFar&)> give_up{};
  std::function<void(protocol::Verb)> phase;
  const Interrupts* interrupts = nullptr;
  int stop = -1;  // readable: the conversation ends; -1: never
  // Why `stop` is readable; empty: because the conversation of another rank has failed.
  std::function<WorkerEnding()> why_stopped{};
};

// Between two moments of CLOCK_MONOTONIC on the worker's machine.
struct RunSpan {
  std::int64_t begin_ns = 0, end_ns = 0;
};

struct ConversationResult {
  Status status = Status::failed;
  std::string reason;                                  // empty when ok
  ReasonCode reason_code = ReasonCode::worker_failed;  // absent when ok
  // The command that was not answered; absent if it failed before the first one, or is ok.
  std::optional<protocol::Verb> failed_at;
  std::string log_tail;
  std::optional<protocol::Hello> hello;
  std::optional<protocol::Compiled> compiled;
  std::optional<protocol::Ran> ran;
  std::optional<protocol::Exchanged> exchanged;
  std::optional<protocol::DeviceTimed> device_timed;
  std::vector<MachineSample> samples;                  // only during `run`
  std::optional<GpuUse> gpu;                           // if the plan requests it
  double start_seconds = 0, quit_seconds = 0;          // from the start to the hello; of quitting
  std::map<protocol::Verb, double> command_seconds{};  // duration of each command
  std::optional<RunSpan> ran_between{};                // from the command `run` to its answer
  // When the first and the last progress of the command `run` came: a worker sends one before its first block and one
  // after its last.
  std::optional<RunSpan> stepped_between{};
  std::optional<std::int64_t>
      run_cpu_ns{};  // processor time of the worker's own process between them, from /proc
  // Time taken from the worker's processors between them; absent if /proc does not show it.
  std::optional<Disturbance> run_disturbance{};
  // What processes that are not of this worker used in the same time, on any processor; absent if not all are seen.
  std::optional<std::int64_t> run_others_ns{};
  std::optional<CorePlacement> placement{};  // of the processors that the plan names
  std::string host{};                        // the name of its machine, if there are several
  // The last answer, or the moment at which there was none: whether it failed before other ranks did.
  std::chrono::steady_clock::time_point last_heard{};
  // How long the threads of the worker and the processes below it waited for a processor between them, ready to run.
  std::optional<std::int64_t> run_waited_ns{};
  // How long a CPU quota stopped the worker between them, see quota_stops().
  std::optional<std::int64_t> quota_stopped_ns{};
  // During `run`, see ThreadWatch::outside() and ThreadWatch::confined_to().
  std::optional<int> strayed_to{};
  std::vector<int> confined_to{};
  std::vector<Standstill> standstills{};  // during `run`, of this program or of the worker
  // Processors in use when a time limit ended it: whether it computed, or waited for something.
  std::optional<double> used_at_end{};
  WorkerExit exit;  // if the worker has ended
  // The worker's, or the largest sum over it and its descendants in a sample. Until the answer to the last
  // command but `verify`, `exchange` and `time_device`, and without earlier forks of a resident worker; all of its life if it failed.
  std::int64_t peak_rss = 0;
  std::int64_t start_rss = 0;  // of the worker when it said hello

  bool ok() const { return status == Status::ok; }
};

enum class Afterwards { quit, stop, stay };

// Why a conversation was ended: by a signal, which has come, or because that of another rank had failed.
WorkerEnding ended_by(const Interrupts& interrupts);
WorkerEnding ended_by_another_rank();

// A worker for one or more conversations. The destructor ends it and its process group.
class Worker {
 public:
  // Does not start the worker.
  Worker(const ConversationPlan& plan, const ConversationWatch& watch);
  ~Worker();
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;

  // Sends the commands; waits for hello before the first command of all. Then the worker quits, stops
  // (SIGSTOP) until the next conversation, or stays as it is; after a failure it is ended. Every result has
  // the worker's hello and its answer to compile. Never throws because of a worker. Waits in poll().
  ConversationResult converse(const std::vector<protocol::Command>& commands, Afterwards afterwards,
                              std::optional<Deadline> deadline);

 private:
  class Conversation;
  ConversationPlan plan_;
  ConversationWatch watch_;
  std::unique_ptr<Conversation> conversation_;
};

// Talks with a new worker: the plan's commands, then quit.
ConversationResult converse(const ConversationPlan& plan, const ConversationWatch& watch = {});

}  // namespace assay
