#include "harness/conductor/process/launch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/conductor/process/steady_time.hpp"
#include "harness/conductor/process/survivors.hpp"
#include "harness/conductor/process/worker_log.hpp"
#include "harness/core/error.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/launch/child.hpp"
#include "harness/launch/passed_variables.hpp"

namespace assay {
namespace {

using Clock = Launch::Clock;

// For a connection to begin to say who it is, and to end; how many may be silent next to the ranks.
constexpr std::chrono::seconds silent_patience{20}, handshake_patience{2};
constexpr std::size_t max_strangers = 32;
// For the launcher to end after its ranks have, and then after SIGTERM.
constexpr std::chrono::seconds launcher_patience{5}, launcher_last_patience{2};
// For the end of the launcher to be seen after that of a connection.
constexpr std::chrono::milliseconds ending_patience{1000};

}  // namespace

std::string own_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

class Launch::Server {
 public:
  explicit Server(LaunchPlan plan)
      : plan_(std::move(plan)),
        key_(random_key()),
        ranks_(static_cast<std::size_t>(plan_.world)),
        wake_(::eventfd(0, EFD_CLOEXEC)) {
    if (!wake_) throw std::system_error(errno, std::generic_category(), "[ranks] eventfd");
    thread_ = std::jthread([this] { serve(); });
  }
  ~Server() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    wake();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::optional<WorkerEnding> gather(double seconds, std::optional<Deadline> deadline,
                                     const Interrupts* interrupts) {
    constexpr std::chrono::milliseconds look{20};  // for a signal
    const auto limit = Clock::now() + duration_of(seconds);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait_for(lock, look, [this] { return ending_why_ || are_all_here(); });
      if (ending_why_) return ending_why_;
      if (are_all_here()) break;
      if (interrupts && interrupts->signal() != 0) return ended_by(*interrupts);
      if (deadline && Clock::now() >= deadline->at)
        return WorkerEnding{deadline->code,
                            "the time of the run ended before all ranks were there: " + absence()};
      if (Clock::now() >= limit)
        return WorkerEnding{ReasonCode::time_limit, fmt::format("{} within {:g} s (--time-limit){}",
                                                                absence(), seconds, last_words())};
    }
    seat_ranks();
    return std::nullopt;
  }

  const RankHere& here(int rank) const { return ranks_[static_cast<std::size_t>(rank)].here; }
  Link& link(int rank) { return *ranks_[static_cast<std::size_t>(rank)].link; }
  Seat seat(int rank) const { return ranks_[static_cast<std::size_t>(rank)].seat; }
  int hosts() const { return hosts_; }
  bool is_apart() const { return hosts_ > 1 || ranks_.front().here.host != own_host(); }

  std::optional<WorkerEnding> ending() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, ending_patience, [this] { return ending_why_.has_value(); });
    return ending_why_;
  }
  std::string log_tail() const {
    const std::lock_guard lock(mutex_);
    return log_ ? log_->tail() : "";
  }

 private:
  // A connection that has not said which rank it is.
  struct Arrival {
    std::unique_ptr<Link> link;
    std::string challenge;
    Clock::time_point latest;
  };
  struct Rank {
    std::unique_ptr<Link> link{};  // null: it is not there yet
    RankHere here{};
    Seat seat{};
  };

  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = ::write(wake_.get(), &one, sizeof one);
  }

  // The functions below are called with the mutex locked.

  bool are_all_here() const {
    return std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.link != nullptr; });
  }

  // "ranks 1, 2: mpirun has not started them"
  std::string absence() const {
    std::vector<std::size_t> missing;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (!ranks_[rank].link) missing.push_back(rank);
    const bool several = missing.size() > 1;
    return fmt::format(
        "rank{} {}: {} has not started {}, or the program that measures cannot be reached from there,",
        several ? "s" : "", fmt::join(missing, ", "), plan_.name, several ? "them" : "it");
  }

  std::string last_words() const {
    const std::string text = log_ ? last_line_of(log_->tail()) : "";
    return text.empty() ? "" : fmt::format("; last line of its log: {}", text);
  }

  void end_with(WorkerEnding why) {
    if (!ending_why_) ending_why_ = std::move(why);
    for (const Rank& rank : ranks_)
      if (rank.link) rank.link->shut_down();
    changed_.notify_all();
  }

  void seat_ranks() {
    std::map<std::string, std::string> boots;
    for (Rank& rank : ranks_)  // two machines may have one name
      if (const std::string& boot = boots.emplace(rank.here.host, rank.here.boot).first->second;
          boot != rank.here.boot)
        rank.here.host += fmt::format(" ({})", rank.here.boot.substr(0, 8));
    std::vector<std::pair<std::string, int>> found;  // hosts, and their ranks
    for (Rank& rank : ranks_) {
      auto host = std::ranges::find(found, rank.here.host, &std::pair<std::string, int>::first);
      if (host == found.end()) host = found.insert(found.end(), {rank.here.host, 0});
      rank.seat = {static_cast<int>(host - found.begin()), host->second++};
    }
    for (Rank& rank : ranks_) rank.seat.neighbours = found[static_cast<std::size_t>(rank.seat.host)].second;
    hosts_ = static_cast<int>(found.size());
  }

  // Takes the place of a rank. A second one for a place ends the launch.
  void admit(std::unique_ptr<Link> link, RankHere here) {
    if (here.protocol != rank_protocol)
      return end_with(
          {ReasonCode::launcher_failed,
           fmt::format("assay-rank on {} is of another version of Assay: install the same on every machine",
                       here.host)});
    if (here.rank < 0 || here.rank >= plan_.world || ranks_[static_cast<std::size_t>(here.rank)].link)
      return end_with(
          {ReasonCode::launcher_failed, fmt::format("{} started the rank {}, but there are {}, each once",
                                                    plan_.name, here.rank, plan_.world)});
    Rank& rank = ranks_[static_cast<std::size_t>(here.rank)];
    rank.link = std::move(link);
    rank.here = std::move(here);
    changed_.notify_all();
  }

  // The thread of the server.

  void serve() {
    try {
      start();
    } catch (const std::runtime_error& error) {
      const auto* system = dynamic_cast<const std::system_error*>(&error);
      const std::lock_guard lock(mutex_);
      end_with({ReasonCode::launcher_failed,
                fmt::format("cannot start {}: {}", plan_.name, system ? message_of(*system) : error.what())});
    }
    while (launcher_ > 0 && !is_over()) {
      poll_once();
      if (launcher_ > 0 && reaped()) break;
    }
    end_launcher();
    if (started_ > 0) end_survivors(started_);
    const std::lock_guard lock(mutex_);
    if (log_) log_->finish();
  }

  bool is_over() {
    const std::lock_guard lock(mutex_);
    return is_over_;
  }

  // The ranks end with their connections, and the launcher then by itself.
  void end_launcher() {
    {
      const std::lock_guard lock(mutex_);
      for (Rank& rank : ranks_)
        if (rank.link) rank.link->shut_down();
    }
    arriving_.clear();
    listener_.socket.reset();
    const auto begin = Clock::now();
    bool was_terminated = false;
    while (launcher_ > 0 && !reaped()) {
      poll_once();
      if (Clock::now() > begin + launcher_patience + launcher_last_patience) {
        ::kill(-launcher_, SIGKILL);
      } else if (Clock::now() > begin + launcher_patience && !std::exchange(was_terminated, true)) {
        ::kill(-launcher_, SIGTERM);
      }
    }
  }

  void start() {
    listener_ = listen_on_all();
    Pipe log = make_pipe();
    {
      const std::lock_guard lock(mutex_);
      log_ = std::make_unique<WorkerLog>(log.read.release(), plan_.folder / "launcher.log");
    }
    std::map<std::string, std::string> variables = plan_.environment;
    variables[folder_variable] = plan_.folder.string();
    variables[rank_key_variable] = key_;
    const std::vector<std::string> command =
        plan_.command(fmt::format("{}:{}", fmt::join(own_addresses(), ","), listener_.port));
    const StartedChild child = start_child({.command = command,
                                            .environment = std::move(variables),
                                            .reaches = reaches_launcher,
                                            .folder = plan_.folder.string(),
                                            .cores = plan_.cores,
                                            .log = log.write.get()},
                                           [this] { return fork_worker(plan_.folder); });
    started_ = child.process;
    if (child.error != 0) throw std::system_error(child.error, std::generic_category(), command.front());
    launcher_ = started_;
    ending_ = Descriptor(open_process(launcher_));
  }

  // True once the launcher has ended; then every rank is ended.
  bool reaped() {
    const std::optional<WorkerExit> exit = reap(launcher_);
    if (!exit) return false;
    launcher_ = -1;
    ending_.reset();
    const std::lock_guard lock(mutex_);
    if (log_) log_->drain();
    end_with(
        {ReasonCode::launcher_failed, fmt::format("{} {}{}", plan_.name, to_string(*exit), last_words())});
    return true;
  }

  // A connection whose first message has come, or that was closed. It is given up if it does not have the key.
  void hear(Arrival arrival) {
    try {
      const auto message = arrival.link->receive(Clock::now() + handshake_patience);
      if (!message) return;
      auto here = decoded<RankHere>(message->json, "here");
      if (here.proof != proof_of(key_, arrival.challenge, rank_role)) return;
      if (!arrival.link->send({{"proof", proof_of(key_, here.challenge, conductor_role)}})) return;
      arrival.link->trust();
      const std::lock_guard lock(mutex_);
      admit(std::move(arrival.link), std::move(here));
    } catch (const Error&) {  // something else than a rank
    }
  }

  void accept() {
    Descriptor socket(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) return;
    Arrival arrival{std::make_unique<Link>(std::move(socket)), random_key(), Clock::now() + silent_patience};
    if (arriving_.size() >= max_strangers + ranks_.size()) return;
    if (arrival.link->send({{"challenge", arrival.challenge}})) arriving_.push_back(std::move(arrival));
  }

  void poll_once() {
    std::vector<pollfd> waits = {
        {wake_.get(), POLLIN, 0}, {listener_.socket.get(), POLLIN, 0}, {ending_.get(), POLLIN, 0}};
    waits.push_back({log_ ? log_->descriptor() : -1, POLLIN, 0});
    const std::size_t first_arriving = waits.size();
    for (const Arrival& arrival : arriving_) waits.push_back({arrival.link->descriptor(), POLLIN, 0});
    constexpr int max_wait_ms = 200;  // the limits above need a look from time to time
    ::poll(waits.data(), waits.size(), max_wait_ms);
    if (waits[0].revents != 0) {
      std::uint64_t count;
      [[maybe_unused]] const ssize_t ignored = ::read(wake_.get(), &count, sizeof count);
    }
    if (waits[3].revents != 0) {
      const std::lock_guard lock(mutex_);
      log_->drain();
    }
    std::vector<Arrival> silent;
    for (std::size_t i = 0; i < arriving_.size(); ++i) {
      if (waits[first_arriving + i].revents != 0)
        hear(std::move(arriving_[i]));
      else if (Clock::now() < arriving_[i].latest)
        silent.push_back(std::move(arriving_[i]));
    }
    arriving_ = std::move(silent);
    if (waits[1].revents != 0) accept();
    const std::lock_guard lock(mutex_);
    if (!are_all_here()) return;
    arriving_.clear();
    listener_.socket.reset();
  }

  LaunchPlan plan_;
  const std::string key_;
  mutable std::mutex mutex_;  // guards what follows, but not the links themselves
  std::condition_variable changed_;
  std::vector<Rank> ranks_;
  int hosts_ = 1;
  std::unique_ptr<WorkerLog> log_;
  std::optional<WorkerEnding> ending_why_;
  bool is_over_ = false;
  Descriptor wake_;
  // Only of the thread:
  Listener listener_;
  Descriptor ending_;
  std::vector<Arrival> arriving_;       // connected, but have not said which rank they are
  pid_t started_ = -1, launcher_ = -1;  // -1: not started; has ended
  std::jthread thread_;                 // the last member: joined before the others are destroyed
};

Launch::Launch(LaunchPlan plan) : server_(std::make_unique<Server>(std::move(plan))) {}
Launch::~Launch() = default;

std::optional<WorkerEnding> Launch::gather(double seconds, std::optional<Deadline> deadline,
                                           const Interrupts* interrupts) {
  return server_->gather(seconds, deadline, interrupts);
}
const RankHere& Launch::here(int rank) const { return server_->here(rank); }
Link& Launch::link(int rank) { return server_->link(rank); }
Launch::Seat Launch::seat(int rank) const { return server_->seat(rank); }
int Launch::hosts() const { return server_->hosts(); }
bool Launch::is_apart() const { return server_->is_apart(); }
std::optional<WorkerEnding> Launch::ending() { return server_->ending(); }
std::string Launch::log_tail() const { return server_->log_tail(); }

}  // namespace assay
