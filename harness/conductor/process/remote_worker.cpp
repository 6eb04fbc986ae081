#include "harness/conductor/process/remote_worker.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/clock.hpp"
#include "harness/core/error.hpp"
#include "harness/core/json/decode.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;
using Clock = Link::Clock;

// For assay-rank to answer beyond the limits that it keeps itself, and after it was told to end.
constexpr std::chrono::seconds answer_patience{60}, end_patience{20};

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Json answer_to(Link& link, const Json& question) {
  std::optional<Link::Message> message;
  if (link.send(question)) message = link.receive(Clock::now() + answer_patience);
  if (!message) throw LinkBroken("assay-rank does not answer");
  if (const auto error = message->json.find("error"); error != message->json.end() && error->is_string())
    throw Error(error->get<std::string>());
  return std::move(message->json);
}

}  // namespace

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

ConversationResult RemoteWorker::converse(const std::vector<protocol::Command>& commands,
                                          Afterwards afterwards, std::optional<Deadline> deadline) {
  const std::string& host = launch_.here(rank_).host;
  ConversationResult result;
  const auto fail = [&](ReasonCode code, const std::string& reason) {
    result = {};
    end_with(result, code, reason);
    result.last_heard = Clock::now();
    result.log_tail = launch_.log_tail();
  };
  try {
    if (!std::exchange(is_planned_, true))
      answer_to(link_, {{"ask", "plan"},
                        {"plan", to_json(plan_)},
                        {"taken", taken_},
                        {"number", launch_.seat(rank_).local}});
    files_.send(link_);
    result = talk(commands, afterwards, deadline);
  } catch (const LinkBroken& error) {
    const std::optional<WorkerEnding> ending = launch_.ending();
    if (is_ended_) {
      const WorkerEnding why = ended_by_another_rank();
      fail(why.code, why.reason);
    } else if (ending) {
      fail(ending->code, ending->reason);
    } else {
      fail(ReasonCode::host_lost,
           fmt::format("{}: {}, the network to it, or assay-rank on it has failed", error.what(), host));
    }
    link_.shut_down();
  } catch (const Error& error) {
    fail(ReasonCode::files, fmt::format("{}: {}", host, error.what()));
    link_.shut_down();
  }
  if (launch_.hosts() > 1) result.host = host;
  return result;
}

ConversationResult RemoteWorker::talk(const std::vector<protocol::Command>& commands, Afterwards afterwards,
                                      std::optional<Deadline> deadline) {
  const auto now = Clock::now();
  Talk talk{.commands = commands, .afterwards = afterwards};
  double limit = plan_.phase_seconds * static_cast<double>(commands.size() + 1) + plan_.quit_seconds;
  if (deadline) {
    talk.seconds = std::chrono::duration<double>(deadline->at - now).count();
    talk.late = deadline->code;
    limit = std::min(limit, *talk.seconds + plan_.quit_seconds);
  }
  Json question = to_json(talk);
  question["ask"] = "talk";
  if (!link_.send(question)) throw LinkBroken("assay-rank does not answer");
  auto latest = now + duration_of(limit) + answer_patience;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(latest - Clock::now()).count();
    if (left <= 0) throw LinkBroken("assay-rank has not answered for longer than its worker may take");
    std::array<pollfd, 3> waits = {
        pollfd{link_.descriptor(), POLLIN, 0},
        pollfd{is_ended_ || !watch_.interrupts ? -1 : watch_.interrupts->descriptor(), POLLIN, 0},
        pollfd{is_ended_ ? -1 : watch_.stop, POLLIN, 0}};
    ::poll(waits.data(), waits.size(), static_cast<int>(std::min<std::int64_t>(left, 3'600'000)));
    if (waits[1].revents != 0)
      end({ReasonCode::interrupted_by_signal,
           fmt::format("interrupted by SIG{}", ::sigabbrev_np(watch_.interrupts->signal()))});
    else if (waits[2].revents != 0)
      end(ended_by_another_rank());
    if (is_ended_) latest = std::min(latest, Clock::now() + end_patience);
    if (waits[0].revents == 0) continue;
    const auto message = link_.receive(Clock::now() + answer_patience);
    if (!message) throw LinkBroken("the connection broke");
    const Json& json = message->json;
    if (const auto error = json.find("error"); error != json.end() && error->is_string())
      throw Error(error->get<std::string>());
    if (const auto heard = json.find("heard"); heard != json.end()) hear(*heard);
    const auto told = json.find("told");
    if (told == json.end()) continue;
    ConversationResult result = result_of(*told);
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
  if (!watch_.give_up || is_ended_) return;
  const RunSoFar so_far{heard.value("seconds", 0.0), [&] { return heard.value("waited_share", 0.0); }};
  if (const std::string why = watch_.give_up(progress, so_far); !why.empty())
    end({ReasonCode::max_time_spent, why});
}

void RemoteWorker::end(const WorkerEnding& why) {
  is_ended_ = true;
  if (!link_.send({{"ask", "end"}, {"code", std::string(to_string(why.code))}, {"reason", why.reason}}))
    throw LinkBroken("the connection broke");
}

}  // namespace assay
