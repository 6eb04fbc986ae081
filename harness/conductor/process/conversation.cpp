#include "harness/conductor/process/conversation.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "harness/conductor/process/run_usage.hpp"
#include "harness/conductor/process/steady_time.hpp"
#include "harness/conductor/process/worker_process.hpp"
#include "harness/conductor/process/worker_sampler.hpp"
#include "harness/conductor/process/worker_watch.hpp"
#include "harness/core/clock.hpp"
#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/cores.hpp"
#include "harness/machine/environment.hpp"
#include "harness/protocol/step_counter.hpp"

namespace assay {
namespace {

using protocol::Event;
using protocol::Reading;
using protocol::Verb;
using Clock = std::chrono::steady_clock;

// Ends the conversation.
struct Ended {
  WorkerEnding ending;
};

constexpr std::array closing_events = {
    std::pair{Verb::compile, "compiled"},   std::pair{Verb::run, "ran"},
    std::pair{Verb::verify, "verified"},    std::pair{Verb::restart, "restarted"},
    std::pair{Verb::exchange, "exchanged"}, std::pair{Verb::time_device, "device_timed"},
    std::pair{Verb::oracle, "judged"},      std::pair{Verb::quit, "bye"}};

std::string_view closing_event(Verb verb) {
  for (const auto& [candidate, name] : closing_events) {
    if (candidate == verb) return name;
  }
  return "";
}

// Seconds; both processes read one clock.
constexpr double slack = 0.01;

// Why a worker's times of its exchange cannot be true, if its answer took `all` seconds; empty if they can.
std::string impossible(const protocol::Exchanged& exchanged, double all) {
  if (const std::string why = contradiction(exchanged); !why.empty()) return "the worker " + why;
  double sum = 0;
  for (const auto* times : {&exchanged.step_seconds, &exchanged.local_seconds, &exchanged.bare_seconds})
    for (const double time : *times) sum += static_cast<double>(exchanged.steps) * time;
  if (sum > all + slack)
    return fmt::format("the worker reports {:g} s of steps and exchanges, but it answered after {:g} s", sum,
                       all);
  return {};
}

std::string impossible(const protocol::DeviceTimed& timed, double all) {
  if (const std::string why = contradiction(timed); !why.empty()) return "the worker " + why;
  double sum = 0;
  for (const double time : timed.step_seconds) sum += static_cast<double>(timed.steps) * time;
  if (sum > all + slack)
    return fmt::format("the worker reports {:g} s of its device, but it answered after {:g} s", sum, all);
  return {};
}

// Whether the command comes after the steps and counts in no number of theirs.
bool is_afterwards(Verb verb) {
  return verb == Verb::verify || verb == Verb::exchange || verb == Verb::time_device;
}

ReasonCode code_of(protocol::ErrorKind kind) {
  switch (kind) {
    case protocol::ErrorKind::unsupported:
      return ReasonCode::worker_unsupported;
    case protocol::ErrorKind::unavailable:
      return ReasonCode::worker_unavailable;
    case protocol::ErrorKind::out_of_memory:
      return ReasonCode::worker_out_of_memory;
    case protocol::ErrorKind::failed:
      return ReasonCode::worker_failed;
  }
  return ReasonCode::worker_failed;
}

}  // namespace

class Worker::Conversation {
 public:
  Conversation(const ConversationPlan& plan, const ConversationWatch& watch)
      : plan_(plan), watch_(watch), oom_kills_before_(oom_kills()), worker_(plan.worker) {}

  ConversationResult run(const std::vector<protocol::Command>& commands, Afterwards afterwards,
                         std::optional<Deadline> deadline) {
    forget();
    plan_.deadline = deadline;
    if (stopped_) signal_group(SIGCONT);
    try {
      if (!result_.hello) hello();
      for (const protocol::Command& command : commands) say(command);
      end_with(result_, ReasonCode::absent, "");
      result_.failed_at.reset();
      if (afterwards == Afterwards::quit) quit();
    } catch (const Ended& ended) {
      end_with(result_, ended.ending.code, ended.ending.reason);
    }
    const bool lives = result_.ok() && afterwards != Afterwards::quit;
    stopped_ = lives && afterwards == Afterwards::stop;
    if (stopped_) signal_group(SIGSTOP);
    if (!lives) result_.exit = worker_.wait_or_kill(std::chrono::milliseconds(0));
    if (!result_.ok() || result_.peak_rss == 0)
      result_.peak_rss = std::max({result_.peak_rss, result_.exit.peak_rss, seen_.sampler().peak_rss()});
    result_.gpu = seen_.gpu_use();
    result_.log_tail = worker_.log().tail();
    if (!lives) worker_.log().finish();
    return result_;
  }

 private:
  // Keeps the worker's messages about itself and drops the rest of the earlier conversation.
  void forget() {
    ConversationResult next;
    next.hello = std::move(result_.hello);
    next.compiled = std::move(result_.compiled);
    next.start_rss = result_.start_rss;
    result_ = std::move(next);
  }

  void signal_group(int signal) { worker_.signal(signal); }

  void hello() {
    const Event event = wait("hello", "before its hello");
    const auto& hello = std::get<protocol::Hello>(event);
    if (hello.protocol != protocol::version) {
      fail(ReasonCode::protocol_version,
           fmt::format("the worker uses protocol version {}, and this program uses {}; update the older one",
                       hello.protocol, protocol::version));
    }
    if (hello.backend != plan_.backend) {
      fail(ReasonCode::protocol_broken,
           fmt::format("the worker reports the backend '{}', but its backend.json has '{}'", hello.backend,
                       plan_.backend));
    }
    result_.hello = hello;
    result_.start_seconds = seconds_since(started_);
    result_.start_rss = resident_bytes(worker_.pid()).now;
  }

  void say(const protocol::Command& command) {
    result_.failed_at = command.verb;
    if (watch_.phase) watch_.phase(command.verb);
    const bool runs = command.verb == Verb::run;
    require_alive(fmt::format("before the command {}", to_string(command.verb)));
    if (command.verb == Verb::restart) {
      forget_peak_of(worker_.pid());
      seen_.forget_peak();
    }
    if (runs) seen_.begin_steps();
    const auto placed = runs && !plan_.placed.empty() ? read_cores(plan_.placed) : std::nullopt;
    const RunUsage before = runs ? usage_.read(worker_.pid()) : RunUsage{};
    const Clock::time_point begin = Clock::now();
    if (runs) {
      progress_.reset();
      run_ = {begin, watch_.give_up ? tree_waited_ns(worker_.pid()) : std::nullopt};
      seen_.has_begun(begin);
    }
    send(command);
    Event event = wait(closing_event(command.verb), fmt::format("during {}", to_string(command.verb)));
    result_.command_seconds[command.verb] = seconds_since(begin);
    if (runs) {
      result_.ran_between = {nanoseconds_at(begin), nanoseconds_at(Clock::now())};
      note_usage(result_, before, usage_.read(worker_.pid()));
      seen_.sample_peak();
      seen_.end_steps();
      if (const auto now = placed ? read_cores(plan_.placed) : std::nullopt)
        result_.placement = CorePlacement{.before = *placed, .after = *now};
      run_.reset();
    }
    if (!is_afterwards(command.verb))
      result_.peak_rss = std::max(resident_bytes(worker_.pid()).peak, seen_.sampler().peak_rss());
    if (auto* compiled = std::get_if<protocol::Compiled>(&event)) {
      if (!(compiled->seconds >= 0 && std::isfinite(compiled->seconds))) {
        fail(ReasonCode::protocol_broken,
             fmt::format("the worker reports an impossible compile time: {} s", compiled->seconds));
      }
      if (const double all = result_.command_seconds.at(command.verb); compiled->seconds > all + slack) {
        fail(ReasonCode::protocol_broken,
             fmt::format("the worker reports a compile time of {:g} s, but it answered after {:g} s",
                         compiled->seconds, all));
      }
      result_.compiled = std::move(*compiled);
    }
    if (auto* ran = std::get_if<protocol::Ran>(&event)) result_.ran = std::move(*ran);
    if (auto* exchanged = std::get_if<protocol::Exchanged>(&event)) {
      if (const std::string why = impossible(*exchanged, result_.command_seconds.at(command.verb));
          !why.empty())
        fail(ReasonCode::protocol_broken, why);
      result_.exchanged = std::move(*exchanged);
    }
    if (auto* timed = std::get_if<protocol::DeviceTimed>(&event)) {
      if (const std::string why = impossible(*timed, result_.command_seconds.at(command.verb)); !why.empty())
        fail(ReasonCode::protocol_broken, why);
      result_.device_timed = std::move(*timed);
    }
  }

  void send(const protocol::Command& command) {
    switch (worker_.channel().write_line(protocol::write(command), Clock::now() + std::chrono::seconds(10))) {
      case protocol::Writing::done:
      case protocol::Writing::closed:  // it died: reading from it gives the reason
        return;
      case protocol::Writing::timed_out:
        fail(ReasonCode::commands_not_read,
             fmt::format("the worker does not read its commands: the pipe was full at the command {}",
                         to_string(command.verb)));
    }
  }

  // All commands are answered: a failure from here on only needs a kill.
  void quit() {
    require_alive("before it was asked to quit");
    const Clock::time_point begin = Clock::now();
    worker_.channel().write_line(protocol::write(protocol::Command{Verb::quit}),
                                 Clock::now() + std::chrono::seconds(1));
    worker_.channel().close_write();
    const WorkerExit exit =
        worker_.wait_or_kill(std::chrono::milliseconds(std::llround(1000 * plan_.quit_seconds)));
    result_.quit_seconds = seconds_since(begin);
    if (exit.outlasted) {
      fail(ReasonCode::time_limit,
           fmt::format("the worker did not end within {:g} s after its last answer", plan_.quit_seconds));
    }
    if (exit.signal != 0 || exit.code != 0)
      throw Ended{explain_death(exit, "while it quit, after all its answers", worker_.log().tail(), false)};
    take_last_answers();
  }

  // After the answer to each command only `bye` follows, once.
  void take_last_answers() {
    bool said_bye = false;
    for (protocol::Line line = worker_.channel().take_line(); line.reading == Reading::line;
         line = worker_.channel().take_line()) {
      const Event event = parse(line.text);
      if (std::holds_alternative<protocol::Progress>(event)) continue;
      if (!std::holds_alternative<protocol::Bye>(event) || std::exchange(said_bye, true))
        fail(ReasonCode::protocol_broken,
             fmt::format("the worker sent '{}' after its last answer", protocol::name_of(event)));
    }
    if (!said_bye)
      fail(ReasonCode::protocol_broken, "the worker ended without the event 'bye', its answer to quit");
  }

  // A process that the worker left behind may hold the channel and answer in its place. Its own last words are heard.
  void require_alive(const std::string& doing) {
    if (!worker_.ended()) return;
    for (;;) {
      const protocol::Line line = worker_.channel().take_line();
      if (line.reading != Reading::line) gone(doing, line);
      const Event event = parse(line.text);
      if (const auto* error = std::get_if<protocol::Error>(&event)) report_error(*error);
    }
  }

  Event wait(std::string_view expected, const std::string& doing) {
    auto phase_end = Clock::now() + duration_of(plan_.phase_seconds);
    bool has_ended = false;
    for (;;) {
      const auto deadline = plan_.deadline ? std::min(phase_end, plan_.deadline->at) : phase_end;
      const protocol::Line line = worker_.channel().take_line();
      if (line.reading != Reading::pending) result_.last_heard = Clock::now();
      switch (line.reading) {
        case Reading::line: {
          Event event = parse(line.text);
          if (const auto* error = std::get_if<protocol::Error>(&event)) report_error(*error);
          if (const auto* progress = std::get_if<protocol::Progress>(&event)) {
            stamp();
            take_progress(*progress);
            reject_late(deadline, doing);  // progress messages do not extend the deadline
            break;
          }
          if (protocol::name_of(event) == expected) return event;
          fail(ReasonCode::protocol_broken,
               fmt::format("the worker answered '{}' instead of '{}'", protocol::name_of(event), expected));
        }
        case Reading::pending:
          if (has_ended) gone(doing, line);
          has_ended = worker_.ended().has_value();  // its last line may have come just before
          if (has_ended) break;
          reject_late(deadline, doing);
          phase_end += sleep_until(deadline);
          break;
        case Reading::end:
        case Reading::truncated:
          gone(doing, line);
        case Reading::too_long:
          fail(ReasonCode::protocol_broken,
               fmt::format("the worker sent more than {} bytes without a newline; they begin with: {}",
                           protocol::max_line_bytes, quoted(line.text)));
      }
    }
  }

  void stamp() {
    if (!run_) return;
    const std::int64_t now = nanoseconds_at(Clock::now());
    if (!result_.stepped_between) result_.stepped_between = {now, now};
    result_.stepped_between->end_ns = now;
  }

  void take_progress(const protocol::Progress& progress) {
    progress_ = progress;
    if (watch_.progress) watch_.progress(progress);
    if (!run_ || !watch_.give_up) return;
    const double seconds = seconds_since(run_->begin);
    const auto waited_share = [&] { return waited_seconds().value_or(0) / seconds; };
    if (std::string why = watch_.give_up(progress, {seconds, waited_share}); !why.empty())
      fail(ReasonCode::max_time_spent, std::move(why));
  }

  // Of all threads of the worker, since the command `run`.
  std::optional<double> waited_seconds() {
    const auto now = run_->waited_ns ? tree_waited_ns(worker_.pid()) : std::nullopt;
    return now ? std::optional(1e-9 * static_cast<double>(*now - *run_->waited_ns)) : std::nullopt;
  }

  // How far the command `run` came; empty during another command.
  std::string steps_so_far() {
    if (!run_ || !progress_) return "";
    const auto waited = waited_seconds();
    return fmt::format(
        "; {} of {} steps took {}{}", progress_->done, progress_->planned,
        duration_text(seconds_since(run_->begin)),
        waited ? fmt::format(", in which its threads waited {} for a processor", duration_text(*waited))
               : "");
  }

  void reject_late(Clock::time_point deadline, const std::string& doing) {
    if (Clock::now() < deadline) return;
    result_.last_heard = Clock::now();
    const std::string cause = is_stopped(worker_.pid()) ? ": it is stopped, by SIGSTOP or a debugger" : "";
    if (plan_.deadline && deadline == plan_.deadline->at) {
      const bool quick = plan_.deadline->code == ReasonCode::quick_time_spent;
      fail(plan_.deadline->code, fmt::format("{} {}{}{}",
                                             quick ? "the time that --quick allows for the backend ended"
                                                   : "the time that --max-time allows ended",
                                             doing, cause, steps_so_far()));
    }
    if (cause.empty()) {
      seen_.sample();
      result_.used_at_end = seen_.sampler().rate();
      worker_.print_stacks();
    }
    fail(ReasonCode::time_limit,
         fmt::format("no answer {} within {:g} s (--time-limit){}", doing, plan_.phase_seconds, cause));
  }

  Event parse(const std::string& line) {
    try {
      return protocol::parse_event(line);
    } catch (const protocol::ProtocolError& error) {
      fail(ReasonCode::protocol_broken, error.what());
    }
  }

  [[noreturn]] void report_error(const protocol::Error& error) {
    ReasonCode code = code_of(error.kind);
    std::string reason = error.reason.empty() ? "the worker gave no reason" : error.reason;
    if (speaks_of_process_limit(reason)) {
      code = ReasonCode::place_limit;
      reason += "; " + remedy_for_processes();
    }
    if (code == ReasonCode::worker_out_of_memory) {
      reason += remedy_for_memory();
      if (const std::string memory = seen_.gpu_memory(); !memory.empty()) reason += "; " + memory;
    }
    worker_.channel().write_line(protocol::write(protocol::Command{Verb::quit}),
                                 Clock::now() + std::chrono::seconds(1));
    worker_.channel().close_write();
    worker_.wait_or_kill(std::chrono::seconds(5));
    fail(code, reason);
  }

  // The worker closed the channel. Usually it is dead or dying; if it still runs, it is useless without a
  // channel.
  [[noreturn]] void gone(const std::string& doing, const protocol::Line& line) {
    const auto patience = Clock::now() + std::chrono::seconds(2);
    std::optional<WorkerExit> exit;
    while (!(exit = worker_.ended()) && Clock::now() < patience) {
      pollfd log{worker_.log().descriptor(), POLLIN, 0};
      ::poll(&log, 1, 5);
      worker_.log().drain();
    }
    const std::string half = line.reading == Reading::truncated
                                 ? fmt::format(", in the middle of the line {}", quoted(line.text))
                                 : "";
    if (!exit)
      fail(ReasonCode::protocol_broken,
           fmt::format("the worker closed its channel {}{}, but still runs", doing, half));
    throw Ended{explain_death(*exit, doing + half, worker_.log().tail(), oom_kills() > oom_kills_before_)};
  }

  // Waits for an event, the worker's end, a line of the log, a signal, the time of a sample or the deadline. Returns for
  // how long this program stood still by its own clock, which a suspended system stops.
  Clock::duration sleep_until(Clock::time_point deadline) {
    if (const auto next = seen_.next_sample(); next && Clock::now() >= *next) {
      seen_.sample();
      if (run_)
        if (const auto steps = read_step_counter(plan_.worker.cell_folder / step_counter_file))
          take_progress(*steps);
    }
    if (const auto next = seen_.next_sample()) deadline = std::min(deadline, *next);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    std::array<pollfd, 5> waits = {
        pollfd{worker_.channel().read_descriptor(), POLLIN, 0}, pollfd{worker_.log().descriptor(), POLLIN, 0},
        pollfd{watch_.interrupts ? watch_.interrupts->descriptor() : -1, POLLIN, 0},
        pollfd{watch_.stop, POLLIN, 0}, pollfd{worker_.ending_descriptor(), POLLIN, 0}};
    const std::chrono::milliseconds longest(std::clamp<std::int64_t>(left, 0, 3'600'000));
    standstill_watch_.begin();
    ::poll(waits.data(), waits.size(), static_cast<int>(longest.count()));
    const std::optional<Standstill> still = standstill_watch_.end(longest);
    if (still && run_) result_.standstills.push_back(*still);
    if (waits[1].revents != 0) worker_.log().drain();
    if (watch_.interrupts && watch_.interrupts->signal() != 0) throw Ended{ended_by(*watch_.interrupts)};
    if (waits[3].revents != 0)
      throw Ended{watch_.why_stopped ? watch_.why_stopped() : ended_by_another_rank()};
    return still ? std::min(duration_of(still->seconds), Clock::duration(still->end_ns - still->begin_ns))
                 : Clock::duration{};
  }

  static std::string quoted(std::string_view text) { return "'" + printable(text, 120) + "'"; }

  [[noreturn]] static void fail(ReasonCode code, std::string reason) {
    throw Ended{{code, std::move(reason)}};
  }

  ConversationPlan plan_;
  ConversationWatch watch_;
  Clock::time_point started_ = Clock::now();
  // The command `run` while it runs.
  struct Run {
    Clock::time_point begin;
    std::optional<std::int64_t> waited_ns;
  };
  std::optional<Run> run_;
  std::optional<protocol::Progress> progress_;  // the last one
  bool stopped_ = false;
  std::int64_t oom_kills_before_;
  WorkerProcess worker_;
  StandstillWatch standstill_watch_;
  ConversationResult result_;
  RunUsageReader usage_{plan_.worker.cores.empty() ? usable_cores() : plan_.worker.cores};
  WorkerWatch seen_{plan_, worker_, result_};
};

WorkerEnding ended_by(const Interrupts& interrupts) {
  return {ReasonCode::interrupted_by_signal,
          fmt::format("interrupted by SIG{}", ::sigabbrev_np(interrupts.signal()))};
}

WorkerEnding ended_by_another_rank() {
  return {ReasonCode::other_rank_failed, "ended, because another rank failed"};
}

Worker::Worker(const ConversationPlan& plan, const ConversationWatch& watch) : plan_(plan), watch_(watch) {}
Worker::~Worker() = default;
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;

ConversationResult Worker::converse(const std::vector<protocol::Command>& commands, Afterwards afterwards,
                                    std::optional<Deadline> deadline) {
  try {
    if (!conversation_) conversation_ = std::make_unique<Conversation>(plan_, watch_);
    return conversation_->run(commands, afterwards, deadline);
  } catch (const std::system_error& error) {
    ConversationResult result;
    if (is_limit_of_processes(error)) {
      end_with(result, ReasonCode::place_limit,
               fmt::format("cannot start the worker: {}", message_of(error)));
      return result;
    }
    const bool missing =
        error.code() == std::errc::no_such_file_or_directory || error.code() == std::errc::permission_denied;
    if (missing)
      end_with(result, ReasonCode::worker_not_started,
               fmt::format("cannot start the worker: {}", error.what()));
    else
      end_with(result, ReasonCode::files, error.what());
    return result;
  }
}

ConversationResult converse(const ConversationPlan& plan, const ConversationWatch& watch) {
  return Worker(plan, watch).converse(plan.commands, Afterwards::quit, plan.deadline);
}

}  // namespace assay
