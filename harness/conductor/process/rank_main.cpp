// assay-rank CONDUCTOR HOST FOLDER VARIABLES: a launcher such as mpirun starts it once for each rank. It takes its number
// from the first of the environment variables VARIABLES (split at commas) that is set, connects to the conductor at
// CONDUCTOR ("10.0.0.1,127.0.0.1:29400": addresses and a port) on HOST, whose temporary folder is FOLDER, and talks there
// with the worker as the conductor asks it to. The end of the connection ends the worker and this program.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/backends/backend_digest.hpp"
#include "harness/conductor/process/confinement.hpp"
#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/process/launch.hpp"
#include "harness/conductor/process/link.hpp"
#include "harness/conductor/process/rank_files.hpp"
#include "harness/conductor/process/rank_messages.hpp"
#include "harness/conductor/process/steady_time.hpp"
#include "harness/conductor/process/survivors.hpp"
#include "harness/conductor/process/team.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/scratch_root.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/paths.hpp"
#include "harness/launch/child.hpp"
#include "harness/launch/passed_variables.hpp"
#include "harness/machine/cores.hpp"
#include "harness/machine/environment.hpp"
#include "harness/machine/gpu_sampler.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;
using Clock = Link::Clock;

// -1: no variable has a number.
int own_rank(std::string_view variables) {
  while (!variables.empty()) {
    const std::string name(variables.substr(0, variables.find(',')));
    variables.remove_prefix(std::min(name.size() + 1, variables.size()));
    const std::string text = environment_text(name.c_str());
    int rank = -1;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error == std::errc() && rest == text.data() + text.size() && rank >= 0) return rank;
  }
  return -1;
}

// On another machine than the conductor's, TMPDIR names a folder of this run there. `usual`: the temporary folder of the
// conductor's user, which is also that of the ranks where it exists.
void choose_temporary_folder(std::string_view conductors_host, const char* usual) {
  std::error_code error;
  if (own_host() == conductors_host && std::filesystem::is_directory(environment_text("TMPDIR"), error))
    return;
  if (std::filesystem::is_directory(usual, error))
    ::setenv("TMPDIR", usual, 1);
  else
    ::unsetenv("TMPDIR");
}

// A conversation with the conductor of this launch: nobody else has the key. None if it is not at the address.
std::unique_ptr<Link> meet(const std::string& address, int port, const std::string& key, RankHere here) {
  constexpr std::chrono::seconds patience{3}, admission_patience{20};
  Descriptor socket = connect_to(address, port, patience);
  if (!socket) return nullptr;
  auto link = std::make_unique<Link>(std::move(socket));
  const auto challenge = link->receive(Clock::now() + patience);
  if (!challenge) return nullptr;
  here.challenge = random_key();
  here.proof = proof_of(key, challenge->json.value("challenge", ""), rank_role);
  if (!link->send(encode(here))) return nullptr;
  const auto admission = link->receive(Clock::now() + admission_patience);
  if (!admission || admission->json.value("proof", "") != proof_of(key, here.challenge, conductor_role))
    return nullptr;
  link->trust();
  return link;
}

std::unique_ptr<Link> find_conductor(std::string_view places, const RankHere& here) {
  const std::string key = environment_text(rank_key_variable);
  if (key.empty())
    throw Error(fmt::format("the launcher did not pass on the environment variable {}", rank_key_variable));
  ::unsetenv(rank_key_variable);
  const std::size_t colon = places.rfind(':');
  const int port = std::atoi(std::string(places.substr(colon + 1)).c_str());
  for (std::string_view rest = places.substr(0, colon); !rest.empty();) {
    const std::string address(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(address.size() + 1, rest.size()));
    if (auto link = meet(address, port, key, here)) return link;
  }
  throw Error(fmt::format("on {}, nothing of this run is found at {}: no firewall may be between them",
                          here.host, places));
}

// Answers the conductor, one question after the other.
class Rank {
 public:
  Rank(std::unique_ptr<Link> link, const RankHere& here)
      : link_(std::move(link)), here_(here), files_(here.scratch, here.host) {}

  // Until the connection ends. After an error the conductor may still send parts of files: they are passed over.
  void serve() {
    bool has_failed = false;
    while (const auto message = link_->receive()) {
      if (has_failed) continue;
      try {
        if (!answer(message->json)) return;
      } catch (const LinkBroken&) {
        return;
      } catch (const std::runtime_error& error) {  // IoError, JsonError, std::system_error
        if (!link_->send({{"error", error.what()}})) return;
        has_failed = true;
      }
    }
  }

 private:
  bool answer(const Json& question) {
    const std::string what = question.value("ask", "");
    if (what == "port") return keep_port(question.value("address", ""));
    if (what == "machine") return describe_machine(question);
    if (what == "plan") return take_plan(question);
    if (what == "files") {
      files_.receive(*link_, decoded<FolderContents>(question.at("files"), "files"));
      return link_->send({{"done", true}});
    }
    if (what == "talk") return talk(talk_of(question));
    return what == "end";  // it came after the answer
  }

  bool keep_port(const std::string& address) {
    port_ = free_rendezvous(address);
    return link_->send({{"place", port_.place}});
  }

  bool describe_machine(const Json& question) {
    BackendDescription backend;
    backend.folder = question.value("folder", "");
    decode(question.at("command"), backend.command, "command");
    return link_->send({{"machine", encode(environment())},
                        {"files", digest_of(backend).files},
                        {"confined_by", confined_by()}});
  }

  bool take_plan(const Json& question) {
    plan_ = plan_of(question.at("plan"));
    std::vector<int> taken;
    decode(question.at("taken"), taken, "taken");
    leave_cores_to_worker(taken);
    std::map<std::string, std::string> variables;
    decode(question.at("variables"), variables, "variables");
    const auto gpus = variables.find("CUDA_VISIBLE_DEVICES");
    // Otherwise a launcher has chosen, for this rank.
    const bool chosen = gpus == variables.end() || environment_text("CUDA_VISIBLE_DEVICES") != gpus->second;
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 0);
    plan_.worker.launched = true;
    if (plan_.cuda) {
      const std::string gpu = gpu_of_worker(question.value("number", 0), chosen);
      plan_.worker.environment["CUDA_VISIBLE_DEVICES"] = gpu;
      plan_.cuda->devices = gpu;
    }
    plan_.worker.confinement.own.push_back(here_.scratch);
    plan_.worker.confinement.unwritable.push_back(cache_folder());
    return link_->send({{"done", true}});
  }

  bool talk(const Talk& talk) {
    if (!worker_) {
      plan_.worker.cell_folder = files_.folder();
      worker_ = std::make_unique<Worker>(plan_, watch());
    }
    std::optional<Deadline> deadline;
    if (talk.seconds) deadline = {Clock::now() + duration_of(*talk.seconds), talk.late};
    const ConversationResult result = worker_->converse(talk.commands, talk.afterwards, deadline);
    if (is_conductor_gone_) return false;
    const std::vector<std::filesystem::path> fresh = files_.fresh();
    if (!link_->send({{"told", to_json(result)}, {"files", fresh.size()}})) return false;
    for (const std::filesystem::path& file : fresh) files_.send(*link_, file);
    return true;
  }

  ConversationWatch watch() {
    ConversationWatch watch;
    watch.stop = link_->descriptor();
    watch.why_stopped = [this] { return reason_to_end(); };
    if (here_.rank > 0) return watch;
    watch.phase = [this](protocol::Verb verb) {
      link_->send({{"heard", {{"phase", std::string(to_string(verb))}}}});
    };
    watch.give_up = [this](const protocol::Progress& progress, const RunSoFar& run) {
      constexpr std::chrono::milliseconds pause{100};
      if (Clock::now() < told_ + pause && progress.done < progress.planned) return std::string();
      told_ = Clock::now();
      link_->send({{"heard",
                    {{"done", progress.done},
                     {"planned", progress.planned},
                     {"seconds", run.seconds},
                     {"waited_share", run.waited_share()}}}});
      return std::string();
    };
    return watch;
  }

  // During a conversation, the conductor only says that it must end.
  WorkerEnding reason_to_end() {
    constexpr std::chrono::seconds patience{5};
    const auto message = link_->receive(Clock::now() + patience);
    if (!message || message->json.value("ask", "") != "end") {
      is_conductor_gone_ = true;
      return ended_by_another_rank();
    }
    return {from_word<ReasonCode>(message->json.value("code", "")).value_or(ReasonCode::other_rank_failed),
            message->json.value("reason", "")};
  }

  std::unique_ptr<Link> link_;
  const RankHere& here_;
  ReceivedFolder files_;
  Rendezvous port_;
  ConversationPlan plan_;
  bool is_conductor_gone_ = false;
  Clock::time_point told_{};
  std::unique_ptr<Worker> worker_;
};

int run(int rank, const char* conductor, std::string_view conductors_host, const char* folder) {
  const SurvivorGuard guard;
  choose_temporary_folder(conductors_host, folder);
  const ScratchRoot scratch(false);
  const RankHere here{.rank = rank,
                      .host = own_host(),
                      .boot = boot_id(),
                      .cores = usable_cores(),
                      .scratch = scratch.path()};
  Rank(find_conductor(conductor, here), here).serve();
  return 0;
}

}  // namespace
}  // namespace assay

int main(int count, char** arguments) try {
  assay::undo_inherited_signals();
  if (count != 5) {
    std::fputs(
        "usage: assay-rank CONDUCTOR HOST FOLDER VARIABLES; the launcher of assay run --launcher calls it\n",
        stderr);
    return 2;
  }
  // A launcher ends all ranks if one fails. The conductor decides about that; SIGKILL still ends rank and worker.
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) std::signal(number, SIG_IGN);
  const int rank = assay::own_rank(arguments[4]);
  if (rank < 0) {
    std::fprintf(stderr, "assay-rank: the launcher set none of %s\n", arguments[4]);
    return 2;
  }
  return assay::run(rank, arguments[1], arguments[2], arguments[3]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "assay-rank: %s\n", error.what());
  return 1;
}
