#include "harness/conductor/process/remote_worker.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/process/steady_time.hpp"
#include "harness/core/error.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/paths.hpp"
#include "harness/launch/passed_variables.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;
using Clock = Link::Clock;

// For assay-rank to answer beyond the limits that it keeps itself, and after it was told to end.
constexpr std::chrono::seconds told_patience{60}, end_patience{20};

// What reaches workers of this program's environment, unless their machine has its own: what belongs to a machine or to a
// user of it stays here.
std::map<std::string, std::string> variables_for_ranks() {
  constexpr std::array own{"TMPDIR", "HOME", "USER", "LOGNAME", "SHELL", "ASSAY_CACHE"};
  std::map<std::string, std::string> found = environment_variables();
  std::erase_if(found, [&](const auto& one) {
    return !reaches_worker(one.first) || std::ranges::find(own, one.first) != own.end();
  });
  return found;
}

Json answer_to(Link& link, const Json& question) {
  constexpr const char* silent = "assay-rank does not answer";
  if (!link.send(question)) throw LinkBroken(silent);
  return link.answer(Clock::now() + told_patience, silent).json;
}

}  // namespace

WorkerEnding lost(const std::string& host, std::string_view what) {
  return {ReasonCode::host_lost,
          fmt::format("{}: {}, the network to it, or assay-rank on it has failed", what, host)};
}

std::string keep_port_of_rank_0(Launch& launch, const std::string& address) {
  return answer_to(launch.link(0), {{"ask", "port"}, {"address", address}}).value("place", "");
}

RankMachine machine_of_rank(Launch& launch, int rank, const std::filesystem::path& folder,
                            const std::vector<std::string>& command) {
  const Json answer =
      answer_to(launch.link(rank), {{"ask", "machine"}, {"folder", folder.string()}, {"command", command}});
  RankMachine found;
  decode(answer.value("machine", Json::object()), found.machine, "machine");
  decode(answer.value("files", Json::object()), found.files, "files");
  found.confined_by = answer.value("confined_by", "");
  return found;
}

RemoteWorker::RemoteWorker(Launch& launch, int rank, ConversationPlan plan, const ConversationWatch& watch,
                           std::vector<int> taken)
    : launch_(launch),
      rank_(rank),
      link_(launch.link(rank)),
      plan_(std::move(plan)),
      watch_(watch),
      taken_(std::move(taken)),
      files_(plan_.worker.cell_folder) {}

// Before an answer is awaited that takes long. Throws LinkEnded.
void RemoteWorker::look() const {
  if (watch_.interrupts && watch_.interrupts->signal() != 0) throw LinkEnded{ended_by(*watch_.interrupts)};
  pollfd stop{watch_.stop, POLLIN, 0};
  if (watch_.stop >= 0 && ::poll(&stop, 1, 0) > 0) throw LinkEnded{ended_by_another_rank()};
  if (deadline_ && Clock::now() >= deadline_->at)
    throw LinkEnded{
        {deadline_->code, "the time of the run ended while files were sent to " + launch_.here(rank_).host}};
}

void RemoteWorker::give_plan() {
  const Json plan = to_json(plan_);
  try {
    plan.dump();
  } catch (const Json::exception&) {
    throw Error("[ranks] a text of the command, the environment or a path of the worker is not UTF-8");
  }
  answer_to(link_, {{"ask", "plan"},
                    {"plan", plan},
                    {"taken", taken_},
                    {"number", launch_.seat(rank_).local},
                    {"variables", variables_for_ranks()}});
}

ConversationResult RemoteWorker::converse(const std::vector<protocol::Command>& commands,
                                          Afterwards afterwards, std::optional<Deadline> deadline) {
  const std::string& host = launch_.here(rank_).host;
  ConversationResult result;
  const auto fail = [&](const WorkerEnding& why) {
    result = {};
    end_with(result, why.code, why.reason);
    result.last_heard = Clock::now();
    result.log_tail = launch_.log_tail();
    link_.shut_down();
  };
  deadline_ = deadline;
  ended_.reset();
  try {
    link_.watch([this] { look(); });
    if (!std::exchange(is_planned_, true)) give_plan();
    files_.send(link_);
    result = talk(commands, afterwards);
  } catch (const LinkEnded& ended) {
    fail(ended.ending);
  } catch (const LinkBroken& error) {
    const auto ending = launch_.ending();
    if (ended_ && ended_->code != ReasonCode::other_rank_failed)
      fail(*ended_);
    else
      fail(ending ? *ending : lost(host, error.what()));
  } catch (const Error& error) {
    fail({ReasonCode::files, fmt::format("{}: {}", host, error.what())});
  }
  link_.watch({});
  if (launch_.is_apart()) result.host = host;
  return result;
}

ConversationResult RemoteWorker::talk(const std::vector<protocol::Command>& commands, Afterwards afterwards) {
  const auto now = Clock::now();
  Talk talk{.commands = commands, .afterwards = afterwards};
  double limit = plan_.phase_seconds * static_cast<double>(commands.size() + 1) + plan_.quit_seconds;
  if (deadline_) {
    talk.seconds = std::chrono::duration<double>(deadline_->at - now).count();
    talk.late = deadline_->code;
    limit = std::min(limit, *talk.seconds + plan_.quit_seconds);
  }
  Json question = to_json(talk);
  question["ask"] = "talk";
  if (!link_.send(question)) throw LinkBroken("assay-rank does not answer");
  link_.watch({});
  auto latest = now + duration_of(limit) + told_patience;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(latest - Clock::now()).count();
    if (left <= 0) throw LinkBroken("assay-rank has not answered for longer than its worker may take");
    std::array<pollfd, 3> waits = {
        pollfd{link_.descriptor(), POLLIN, 0},
        pollfd{ended_ || !watch_.interrupts ? -1 : watch_.interrupts->descriptor(), POLLIN, 0},
        pollfd{ended_ ? -1 : watch_.stop, POLLIN, 0}};
    ::poll(waits.data(), waits.size(), static_cast<int>(std::min<std::int64_t>(left, 3'600'000)));
    if (waits[1].revents != 0)
      end(ended_by(*watch_.interrupts));
    else if (waits[2].revents != 0)
      end(ended_by_another_rank());
    if (ended_) latest = std::min(latest, Clock::now() + end_patience);
    if (waits[0].revents == 0) continue;
    const Json json = link_.answer(Clock::now() + told_patience, "the connection broke").json;
    if (const auto heard = json.find("heard"); heard != json.end()) hear(*heard);
    const auto told = json.find("told");
    if (told == json.end()) continue;
    ConversationResult result = result_of(*told);
    if (!ended_) link_.watch([this] { look(); });
    files_.take(link_, json.value("files", std::size_t{0}));
    return result;
  }
}

void RemoteWorker::hear(const Json& heard) {
  if (const auto verb = from_word<protocol::Verb>(heard.value("phase", "")); verb && watch_.phase)
    watch_.phase(*verb);
  if (!heard.contains("done")) return;
  const protocol::Progress progress{.done = heard.value("done", std::int64_t{0}),
                                    .planned = heard.value("planned", std::int64_t{0})};
  if (watch_.progress) watch_.progress(progress);
  if (!watch_.give_up || ended_) return;
  const RunSoFar so_far{heard.value("seconds", 0.0), [&] { return heard.value("waited_share", 0.0); }};
  if (const std::string why = watch_.give_up(progress, so_far); !why.empty())
    end({ReasonCode::max_time_spent, why});
}

void RemoteWorker::end(const WorkerEnding& why) {
  ended_ = why;
  if (!link_.send({{"ask", "end"}, {"code", std::string(to_string(why.code))}, {"reason", why.reason}}))
    throw LinkBroken("the connection broke");
}

}  // namespace assay
