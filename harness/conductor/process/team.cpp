#include "harness/conductor/process/team.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/conductor/process/remote_worker.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;
using protocol::Command;

// For ranks to fail by themselves after another one did: their reasons are part of the row's.
constexpr std::chrono::milliseconds grace{1000};

template <typename AnyWorker>
ConversationResult talk(AnyWorker& worker, const std::vector<Command>& commands, Afterwards afterwards,
                        std::optional<Deadline> deadline) {
  try {
    return worker.converse(commands, afterwards, deadline);
  } catch (const std::exception& error) {  // must not leave the thread
    const bool is_short = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
    ConversationResult result;
    end_with(result, is_short ? ReasonCode::place_limit : ReasonCode::internal_error, internal_error(error));
    return result;
  }
}

}  // namespace

class Team::Threads {
 public:
  Threads(std::vector<ConversationPlan> plans, const ConversationWatch& watch, std::unique_ptr<Launch> launch)
      : plans_(std::move(plans)),
        watch_(watch),
        launch_(std::move(launch)),
        results_(plans_.size()),
        asked_(plans_.size()) {
    if (!stop_) throw std::system_error(errno, std::generic_category(), "[worker] eventfd");
    try {
      for (std::size_t rank = 0; rank < plans_.size(); ++rank)
        threads_.emplace_back([this, rank] { serve(rank); });
    } catch (const std::system_error&) {  // no further thread: those that run are waited for
      end();
      throw;
    }
  }
  ~Threads() { end(); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  std::vector<ConversationResult> converse(const std::vector<Command>& commands, Afterwards afterwards,
                                           std::optional<Deadline> deadline) {
    if (afterwards != Afterwards::quit) return ask(commands, afterwards, deadline);
    std::vector<ConversationResult> answers = ask(commands, Afterwards::stay, deadline);
    if (!std::ranges::all_of(answers, &ConversationResult::ok)) return answers;
    std::vector<ConversationResult> ends = ask({}, Afterwards::quit, deadline);
    for (std::size_t rank = 0; rank < answers.size(); ++rank) {
      end_like(answers[rank], ends[rank]);
      answers[rank].log_tail = std::move(ends[rank].log_tail);
      answers[rank].quit_seconds = ends[rank].quit_seconds;
      answers[rank].exit = ends[rank].exit;
      answers[rank].last_heard = ends[rank].last_heard;
    }
    return answers;
  }

 private:
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
  }

  std::vector<ConversationResult> ask(const std::vector<Command>& commands, Afterwards afterwards,
                                      std::optional<Deadline> deadline) {
    std::unique_lock lock(mutex_);
    commands_ = commands;
    afterwards_ = afterwards;
    deadline_ = deadline;
    missing_ = plans_.size();
    asked_.assign(plans_.size(), true);
    changed_.notify_all();
    const auto all = [this] { return missing_ == 0; };
    changed_.wait(lock, [&] { return all() || failed_; });
    if (!changed_.wait_for(lock, grace, all)) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t ignored = ::write(stop_.get(), &one, sizeof one);
      changed_.wait(lock, all);
    }
    return results_;
  }

  // One rank's thread.
  void serve(std::size_t rank) {
    ConversationWatch watch = watch_;
    watch.stop = stop_.get();
    if (rank > 0) watch.progress = nullptr;
    if (rank > 0) watch.phase = nullptr;
    if (rank > 0) watch.give_up = nullptr;
    if (launch_) {
      RemoteWorker worker(*launch_, static_cast<int>(rank), plans_[rank], watch, taken_with(rank));
      serve(rank, worker);
    } else {
      Worker worker(plans_[rank], watch);
      serve(rank, worker);
    }
  }

  // The processors of all ranks on the machine of this one.
  std::vector<int> taken_with(std::size_t rank) const {
    std::set<int> taken;
    for (std::size_t other = 0; other < plans_.size(); ++other)
      if (launch_->seat(static_cast<int>(other)).host == launch_->seat(static_cast<int>(rank)).host)
        taken.insert(plans_[other].worker.cores.begin(), plans_[other].worker.cores.end());
    return {taken.begin(), taken.end()};
  }

  template <typename AnyWorker>
  void serve(std::size_t rank, AnyWorker& worker) {
    std::unique_lock lock(mutex_);  // released before the worker is ended
    for (;;) {
      changed_.wait(lock, [&] { return ending_ || asked_[rank]; });
      if (!asked_[rank]) return;
      asked_[rank] = false;
      lock.unlock();
      ConversationResult result = talk(worker, commands_, afterwards_, deadline_);
      lock.lock();
      failed_ = failed_ || !result.ok();
      results_[rank] = std::move(result);
      --missing_;
      changed_.notify_all();
    }
  }

  std::vector<ConversationPlan> plans_;
  ConversationWatch watch_;
  std::unique_ptr<Launch> launch_;
  Descriptor stop_{::eventfd(0, EFD_CLOEXEC)};
  std::mutex
      mutex_;  // guards the members below; commands, afterwards and deadline change only while no rank talks
  std::condition_variable changed_;
  std::vector<Command> commands_;
  Afterwards afterwards_ = Afterwards::stay;
  std::optional<Deadline> deadline_;
  std::vector<ConversationResult> results_;
  std::vector<bool> asked_;
  std::size_t missing_ = 0;
  bool failed_ = false, ending_ = false;
  std::vector<std::jthread> threads_;  // the last member: joined before the others are destroyed
};

Team::Team(std::vector<ConversationPlan> plans, const ConversationWatch& watch,
           std::unique_ptr<Launch> launch) {
  if (plans.size() == 1)
    alone_ = std::make_unique<Worker>(plans.front(), watch);
  else
    threads_ = std::make_unique<Threads>(std::move(plans), watch, std::move(launch));
}
Team::~Team() = default;
Team::Team(Team&&) noexcept = default;
Team& Team::operator=(Team&&) noexcept = default;

std::vector<ConversationResult> Team::converse(const std::vector<Command>& commands, Afterwards afterwards,
                                               std::optional<Deadline> deadline) {
  if (threads_) return threads_->converse(commands, afterwards, deadline);
  return {alone_->converse(commands, afterwards, deadline)};
}

Rendezvous free_rendezvous(const std::string& address) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  if (::inet_pton(AF_INET, address.c_str(), &place.sin_addr) != 1)
    throw std::system_error(EINVAL, std::generic_category(), "[ranks] the IPv4 address '" + address + "'");
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  socklen_t size = sizeof place;
  auto* any = reinterpret_cast<sockaddr*>(&place);
  // IP_FREEBIND: also an address that this process does not have.
  if (!socket || ::setsockopt(socket.get(), IPPROTO_IP, IP_FREEBIND, &on, sizeof on) != 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(socket.get(), any, size) != 0 || ::getsockname(socket.get(), any, &size) != 0)
    throw std::system_error(errno, std::generic_category(), "[ranks] a port at " + address);
  return {fmt::format("{}:{}", address, ntohs(place.sin_port)), std::move(socket)};
}

namespace {

bool failed_by_itself(const ConversationResult& rank) {
  return !rank.ok() && rank.reason_code != ReasonCode::other_rank_failed;
}

constexpr std::string_view in_use = "; processors in use at the end: {}";

bool late(const ConversationResult& rank) { return rank.reason_code == ReasonCode::time_limit; }

// Smaller: more likely the cause of the other failures.
auto precedence(const ConversationResult& rank) {
  const bool died = rank.status == Status::crashed || rank.status == Status::out_of_memory ||
                    rank.reason_code == ReasonCode::worker_exited ||
                    rank.reason_code == ReasonCode::host_lost;
  const bool explained = late(rank) && !rank.used_at_end;  // stopped, or never started
  return std::tuple(!died, !explained, rank.last_heard);
}

// The ranks that failed by themselves, the cause first.
std::vector<std::size_t> failed_ranks(const std::vector<ConversationResult>& ranks) {
  std::vector<std::size_t> failed;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (failed_by_itself(ranks[rank])) failed.push_back(rank);
  std::ranges::stable_sort(failed, {}, [&](std::size_t rank) { return precedence(ranks[rank]); });
  return failed;
}

// "1", or "1 on node2" if there are several machines
std::string name_of(const std::vector<ConversationResult>& ranks, std::size_t rank) {
  const std::string& host = ranks[rank].host;
  return host.empty() ? std::to_string(rank) : fmt::format("{} on {}", rank, host);
}

// "rank 1: it died; then rank 0: connection closed", "ranks 0, 1: no answer within 15 s"
std::string reason_of(const std::vector<ConversationResult>& ranks, const std::vector<std::size_t>& failed) {
  std::vector<std::size_t> alike, others;
  for (const std::size_t rank : failed)
    (ranks[rank].reason == ranks[failed.front()].reason ? alike : others).push_back(rank);
  std::ranges::sort(alike);
  std::vector<std::string> names;
  for (const std::size_t rank : alike) names.push_back(name_of(ranks, rank));
  std::string text = fmt::format("rank{} {}: {}", alike.size() > 1 ? "s" : "", fmt::join(names, ", "),
                                 ranks[alike.front()].reason);
  std::vector<std::string> uses;  // which ranks wait for one that computes, or the other way round
  for (const std::size_t rank : alike)
    if (const auto used = ranks[rank].used_at_end) uses.push_back(fmt::format("rank {} {:.2f}", rank, *used));
  if (!uses.empty()) text += fmt::format(in_use, fmt::join(uses, ", "));
  for (const std::size_t rank : others)
    text += fmt::format("; then rank {}: {}", name_of(ranks, rank), ranks[rank].reason);
  return text;
}

// If ranks gave no answer, each may be the one that the others wait for.
std::string log_of(const std::vector<ConversationResult>& ranks, std::vector<std::size_t> failed) {
  if (failed.size() == 1 || !late(ranks[failed.front()])) return ranks[failed.front()].log_tail;
  std::string text;
  std::ranges::sort(failed);
  for (const std::size_t rank : failed)
    text += fmt::format("log of rank {}:\n{}\n", rank, ranks[rank].log_tail);
  return text;
}

// Sums the samples of the ranks that have the same place in the order.
std::vector<MachineSample> summed_samples(const std::vector<ConversationResult>& ranks) {
  std::vector<MachineSample> sums = ranks.front().samples;
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const std::vector<MachineSample>& samples = ranks[rank].samples;
    sums.resize(std::min(sums.size(), samples.size()));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i].worker_cpu += samples[i].worker_cpu;
      sums[i].worker_rss += samples[i].worker_rss;
      sums[i].processes += samples[i].processes;
    }
  }
  return sums;
}

// The ranks share one installation, so its size is not added.
void add(std::map<std::string, std::int64_t>& sums, const std::map<std::string, std::int64_t>& bytes) {
  for (const auto& [name, value] : bytes) {
    std::int64_t& sum = sums[name];
    sum = name == "installed_size" ? std::max(sum, value) : sum + value;
  }
}

}  // namespace

ConversationResult joined(const std::vector<ConversationResult>& ranks) {
  ConversationResult all = ranks.front();
  if (ranks.size() == 1) {
    if (all.used_at_end) all.reason += fmt::format(in_use, fmt::format("{:.2f}", *all.used_at_end));
    return all;
  }
  all.samples = summed_samples(ranks);
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const ConversationResult& rank = ranks[i];
    if (all.compiled && rank.compiled) {
      all.compiled->seconds = std::max(all.compiled->seconds, rank.compiled->seconds);
      add(all.compiled->memory, rank.compiled->memory);
    }
    if (all.ran && rank.ran) add(all.ran->memory, rank.ran->memory);
    all.start_seconds = std::max(all.start_seconds, rank.start_seconds);
    all.quit_seconds = std::max(all.quit_seconds, rank.quit_seconds);
    for (const auto& [verb, seconds] : rank.command_seconds)
      all.command_seconds[verb] = std::max(all.command_seconds[verb], seconds);
    if (!all.strayed_to) all.strayed_to = rank.strayed_to;
    if (all.confined_to.empty()) all.confined_to = rank.confined_to;
    all.peak_rss += rank.peak_rss;
    all.start_rss += rank.start_rss;
  }
  if (const std::vector<std::size_t> failed = failed_ranks(ranks); !failed.empty()) {
    const ConversationResult& cause = ranks[failed.front()];
    end_with(all, cause.reason_code, reason_of(ranks, failed));
    all.failed_at = cause.failed_at;
    all.log_tail = log_of(ranks, failed);
    all.exit = cause.exit;
  }
  return all;
}

}  // namespace assay
