#include "harness/conductor/process/launch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "harness/conductor/process/survivors.hpp"
#include "harness/conductor/process/worker_log.hpp"
#include "harness/conductor/process/worker_process.hpp"
#include "harness/core/error.hpp"
#include "harness/launch/passed_variables.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// For assay-rank to report the end of a worker that was killed.
constexpr std::chrono::seconds report_patience{5};
// For the launcher to end after its ranks have, and then after SIGTERM.
constexpr std::chrono::seconds launcher_patience{5}, launcher_last_patience{2};

constexpr WorkerExit killed{.code = 0, .signal = SIGKILL, .peak_rss = 0, .cpu_seconds = 0};

}  // namespace

class Launch::Server {
 public:
  explicit Server(LaunchPlan plan)
      : plan_(std::move(plan)),
        ranks_(static_cast<std::size_t>(plan_.world)),
        wake_(::eventfd(0, EFD_CLOEXEC)) {
    if (!wake_) throw std::system_error(errno, std::generic_category(), "[ranks] eventfd");
    thread_ = std::jthread([this] { serve(); });
  }
  ~Server() {
    {
      const std::lock_guard lock(mutex_);
      for (Rank& rank : ranks_) end(rank);
    }
    wake();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void offer(std::size_t number, launch::RankOrders orders) {
    {
      const std::lock_guard lock(mutex_);
      Rank& rank = ranks_[number];
      rank.folder = orders.folder;
      if (!rank.exit) rank.orders = std::move(orders);  // else its end of the descriptors is closed here
    }
    wake();
  }
  pid_t process(std::size_t number) const {
    const std::lock_guard lock(mutex_);
    return ranks_[number].process;
  }
  std::optional<WorkerExit> ended(std::size_t number) const {
    const std::lock_guard lock(mutex_);
    return ranks_[number].exit;
  }
  std::optional<WorkerEnding> failure(std::size_t number) const {
    const std::lock_guard lock(mutex_);
    return ranks_[number].failure;
  }
  std::string absence(std::size_t number) const {
    const std::lock_guard lock(mutex_);
    const Rank& rank = ranks_[number];
    if (rank.process > 0 || rank.exit) return "";
    if (rank.has_orders) return "assay-rank has not started its worker";
    return fmt::format("{} has not started this rank{}", plan_.name, last_words());
  }
  void signal(std::size_t number, int signal) {
    {
      const std::lock_guard lock(mutex_);
      Rank& rank = ranks_[number];
      if (rank.exit) return;
      if (rank.process <= 0 || signal == SIGKILL) end(rank);
      if (rank.process > 0) ::kill(-rank.process, signal);
    }
    wake();
  }
  int nodes() const {
    const std::lock_guard lock(mutex_);
    std::set<std::string> hosts;
    for (const Rank& rank : ranks_)
      if (!rank.host.empty()) hosts.insert(rank.host);
    return std::max(1, static_cast<int>(hosts.size()));
  }

 private:
  struct Rank {
    std::optional<launch::RankOrders> orders{};  // offered and not yet taken
    Descriptor connection{};
    std::string host{}, folder{};
    bool has_orders = false;   // it took them
    bool is_unwanted = false;  // must not run, or must be killed
    pid_t process = -1;
    std::optional<WorkerExit> exit{};
    std::optional<WorkerEnding> failure{};
    std::optional<Clock::time_point> killed_at{};
  };

  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = ::write(wake_.get(), &one, sizeof one);
  }

  // The functions below are called with the mutex locked.

  // The rank must not run any more.
  void end(Rank& rank) {
    if (rank.exit) return;
    rank.is_unwanted = true;
    if (rank.process > 0) {
      ::kill(-rank.process, SIGKILL);
      if (!rank.killed_at) rank.killed_at = Clock::now();
    } else if (!rank.has_orders) {
      rank.exit = WorkerExit{};  // it never ran
      rank.orders.reset();
    } else if (!rank.killed_at) {
      rank.killed_at = Clock::now();
    }
  }

  // assay-rank is gone without a report: the kernel kills its worker.
  void lose(Rank& rank) {
    rank.connection.reset();
    rank.orders.reset();
    if (rank.exit) return;
    rank.exit = killed;
    if (!rank.is_unwanted && !rank.failure)
      rank.failure = {ReasonCode::launcher_failed,
                      fmt::format("{} ended the rank, or assay-rank was killed{}", plan_.name, last_words())};
    if (rank.process > 0) end_survivors(rank.process);
  }

  // A rank that was killed and does not report it.
  void lose_the_silent() {
    for (Rank& rank : ranks_)
      if (!rank.exit && rank.killed_at && Clock::now() > *rank.killed_at + report_patience) lose(rank);
  }

  void fail_all(const WorkerEnding& why) {
    for (Rank& rank : ranks_) {
      if (rank.exit) continue;
      if (!rank.failure) rank.failure = why;
      end(rank);
    }
  }

  bool all_ended() const {
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.exit.has_value(); });
  }

  std::string last_words() const {
    const std::string text = log_ ? last_line_of(log_->tail()) : "";
    return text.empty() ? "" : fmt::format("; last line of its log: {}", text);
  }

  void take(Rank& rank, const launch::Report& report) {
    if (const auto* started = std::get_if<launch::WorkerStarted>(&report)) {
      rank.process = started->process;
      adopt_worker(rank.process, rank.folder);
      if (rank.is_unwanted) ::kill(-rank.process, SIGKILL);
    } else if (const auto* failed = std::get_if<launch::WorkerNotStarted>(&report)) {
      const std::system_error error(failed->error, std::generic_category());
      rank.exit = WorkerExit{.code = 127};
      rank.failure = {is_limit_of_processes(error) ? ReasonCode::place_limit : ReasonCode::worker_not_started,
                      fmt::format("cannot start the worker: {}", message_of(error))};
    } else if (const auto* ended = std::get_if<launch::WorkerEnded>(&report)) {
      rank.exit = ended->exit;
      end_survivors(rank.process);
    }
  }

  // A connection whose rank is known when it says so: reading here would wait for it with the mutex locked.
  void accept() {
    Descriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) arriving_.push_back(std::move(connection));
  }

  // The connection has a message, or is closed.
  void admit(Descriptor connection) {
    const auto report = launch::receive_report(connection.get());
    const auto* here = report ? std::get_if<launch::RankHere>(&*report) : nullptr;
    if (!here) return;
    if (here->rank < 0 || here->rank >= plan_.world ||
        ranks_[static_cast<std::size_t>(here->rank)].connection) {
      fail_all(
          {ReasonCode::launcher_failed, fmt::format("{} started the rank {}, but there are {}, each once",
                                                    plan_.name, here->rank, plan_.world)});
      return;
    }
    Rank& rank = ranks_[static_cast<std::size_t>(here->rank)];
    rank.host = here->host;
    rank.connection = std::move(connection);
  }

  void start_offered() {
    for (Rank& rank : ranks_) {
      if (!rank.connection || !rank.orders || rank.exit) continue;
      rank.has_orders = launch::send(rank.connection.get(), *rank.orders);
      const int error = rank.has_orders ? 0 : errno;
      rank.orders.reset();  // the conversation sees that no one has the other ends of its pipes
      if (rank.has_orders) continue;
      if (error != EMSGSIZE && error != EILSEQ) {
        lose(rank);
        continue;
      }
      rank.exit = WorkerExit{.code = 127};
      rank.failure = {ReasonCode::worker_not_started,
                      fmt::format("cannot send the worker's command and environment to assay-rank: {}",
                                  std::generic_category().message(error))};
    }
  }

  // The thread of the server.

  void serve() {
    try {
      start();
    } catch (const std::system_error& error) {
      const std::lock_guard lock(mutex_);
      fail_all(
          {ReasonCode::launcher_failed, fmt::format("cannot start {}: {}", plan_.name, message_of(error))});
    }
    std::optional<Clock::time_point> all_ended_at;
    bool was_terminated = false;
    while (launcher_ > 0) {
      poll_once();
      const std::lock_guard lock(mutex_);
      if (launcher_ > 0 && reaped()) {
        launcher_ = -1;
        fail_all({ReasonCode::launcher_failed,
                  fmt::format("{} {}{}", plan_.name, to_string(launcher_exit_), last_words())});
        break;
      }
      start_offered();
      lose_the_silent();
      if (!all_ended()) continue;
      const auto now = Clock::now();
      if (!all_ended_at) {
        all_ended_at = now;
        for (Rank& rank : ranks_) rank.connection.reset();  // assay-rank exits, and then the launcher
        arriving_.clear();
        listener_.reset();
      }
      if (now > *all_ended_at + launcher_patience + launcher_last_patience) {
        ::kill(-launcher_, SIGKILL);
      } else if (now > *all_ended_at + launcher_patience && !was_terminated) {
        was_terminated = true;
        ::kill(-launcher_, SIGTERM);
      }
    }
    wait_for_the_last();
    if (started_ > 0) end_survivors(started_);
    std::error_code ignored;
    fs::remove(plan_.socket, ignored);
    const std::lock_guard lock(mutex_);
    if (log_) log_->finish();
  }

  // The launcher is gone: its ranks were killed, and assay-rank reports it.
  void wait_for_the_last() {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        for (Rank& rank : ranks_)
          if (!rank.connection) lose(rank);
        lose_the_silent();
        if (all_ended()) break;
      }
      poll_once();
    }
    const std::lock_guard lock(mutex_);
    for (Rank& rank : ranks_) rank.connection.reset();
    arriving_.clear();
  }

  void start() {
    listener_ = launch::listen_at(plan_.socket);
    Pipe log = make_pipe();
    {
      const std::lock_guard lock(mutex_);
      log_ = std::make_unique<WorkerLog>(log.read.release(), plan_.folder / "launcher.log");
    }
    std::map<std::string, std::string> variables = plan_.environment;
    variables[folder_variable] = plan_.folder.string();
    const StartedChild child = start_child({.command = plan_.command,
                                            .environment = std::move(variables),
                                            .reaches = reaches_launcher,
                                            .folder = plan_.folder.string(),
                                            .log = log.write.get()},
                                           [this] { return fork_worker(plan_.folder); });
    started_ = child.process;
    if (child.error != 0)
      throw std::system_error(child.error, std::generic_category(), plan_.command.front());
    launcher_ = started_;
    ending_ = Descriptor(open_process(launcher_));
  }

  bool reaped() {
    const std::optional<WorkerExit> exit = reap(launcher_);
    if (!exit) return false;
    launcher_exit_ = *exit;
    ending_.reset();
    if (log_) log_->drain();
    return true;
  }

  void poll_once() {
    std::vector<pollfd> waits = {
        {wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}, {ending_.get(), POLLIN, 0}};
    waits.push_back({log_ ? log_->descriptor() : -1, POLLIN, 0});
    const std::size_t first = waits.size();
    {
      const std::lock_guard lock(mutex_);
      for (const Rank& rank : ranks_) waits.push_back({rank.connection.get(), POLLIN, 0});
    }
    const std::size_t first_arriving = waits.size();
    for (const Descriptor& connection : arriving_) waits.push_back({connection.get(), POLLIN, 0});
    constexpr int max_wait_ms = 200;  // the limits above need a look from time to time
    ::poll(waits.data(), waits.size(), max_wait_ms);
    const std::lock_guard lock(mutex_);
    if (waits[0].revents != 0) {
      std::uint64_t count;
      [[maybe_unused]] const ssize_t ignored = ::read(wake_.get(), &count, sizeof count);
    }
    if (waits[3].revents != 0) log_->drain();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      if (waits[first + i].revents == 0 || !rank.connection) continue;
      if (const auto report = launch::receive_report(rank.connection.get()))
        take(rank, *report);
      else
        lose(rank);
    }
    std::vector<Descriptor> silent;
    for (std::size_t i = 0; i < arriving_.size(); ++i) {
      if (waits[first_arriving + i].revents != 0)
        admit(std::move(arriving_[i]));
      else
        silent.push_back(std::move(arriving_[i]));
    }
    arriving_ = std::move(silent);
    if (waits[1].revents != 0) accept();
  }

  LaunchPlan plan_;
  mutable std::mutex mutex_;  // guards the ranks and the log
  std::vector<Rank> ranks_;
  std::unique_ptr<WorkerLog> log_;
  Descriptor wake_;
  // Only of the thread:
  Descriptor listener_, ending_;
  std::vector<Descriptor> arriving_;    // connected, but have not said which rank they are
  pid_t started_ = -1, launcher_ = -1;  // -1: not started; has ended
  WorkerExit launcher_exit_;
  std::jthread thread_;  // the last member: joined before the others are destroyed
};

Launch::Launch(LaunchPlan plan) : server_(std::make_unique<Server>(std::move(plan))) {}
Launch::~Launch() = default;

void Launch::offer(int rank, launch::RankOrders orders) {
  server_->offer(static_cast<std::size_t>(rank), std::move(orders));
}
pid_t Launch::process(int rank) const { return server_->process(static_cast<std::size_t>(rank)); }
std::optional<WorkerExit> Launch::ended(int rank) const {
  return server_->ended(static_cast<std::size_t>(rank));
}
std::optional<WorkerEnding> Launch::failure(int rank) const {
  return server_->failure(static_cast<std::size_t>(rank));
}
std::string Launch::absence(int rank) const { return server_->absence(static_cast<std::size_t>(rank)); }
void Launch::signal(int rank, int number) { server_->signal(static_cast<std::size_t>(rank), number); }
int Launch::nodes() const { return server_->nodes(); }

}  // namespace assay
