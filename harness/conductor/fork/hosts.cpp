#include "harness/conductor/fork/hosts.hpp"

#include <map>
#include <string>

#include <fmt/format.h>

#include "harness/conductor/backends/backend_digest.hpp"
#include "harness/conductor/process/confinement.hpp"
#include "harness/conductor/process/remote_worker.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/environment.hpp"
#include "harness/report/environment_difference.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

void doubt(Fork& fork, const std::string& why) {
  if (!contains(fork.flags, quality_flag::unlike_hosts)) fork.flags.emplace_back(quality_flag::unlike_hosts);
  fork.warnings.push_back(why);
}

std::map<std::string, std::string> versions_of(const ConversationResult& rank) {
  std::map<std::string, std::string> versions;
  if (!rank.hello) return versions;
  versions.emplace(rank.hello->backend, rank.hello->version_of_backend);
  for (const protocol::Library& library : rank.hello->libraries)
    if (origin_of(library) == LibraryOrigin::given) versions.emplace(library.name, library.version);
  return versions;
}

}  // namespace

std::vector<HostRecord> look_at_hosts(Launch& launch, const BackendDescription& backend, Fork& fork) {
  std::vector<HostRecord> hosts;
  const BackendDigest own = digest_of(backend);
  for (int rank = 0; static_cast<int>(hosts.size()) < launch.hosts(); ++rank) {
    if (launch.seat(rank).local > 0) continue;
    RankMachine found = machine_of_rank(launch, rank, backend.folder, backend.command);
    hosts.push_back({launch.here(rank).host, std::move(found.machine)});
    const HostRecord &first = hosts.front(), &last = hosts.back();
    if (found.confined_by != confined_by())
      fork.settings["confined_by"] =
          fmt::format("{}; on {}: {}", confined_by(), last.name, found.confined_by);
    if (const auto other = other_machine(first.machine, last.machine))
      doubt(fork, fmt::format("{} and {} are not alike: {} is {} and {}", first.name, last.name, other->what,
                              one_line(other->base, 60), one_line(other->current, 60)));
    BackendDigest there;
    there.files = std::move(found.files);
    if (const std::string file = changed_backend_file(own, there); !file.empty())
      doubt(fork, fmt::format("{} has another build of {}: {} differs from that of the program that measures",
                              last.name, backend.name, file));
  }
  // A cell of one rank, which scaling compares with, runs here.
  if (const auto other = other_machine(environment(), hosts.front().machine))
    fork.warnings.push_back(fmt::format(
        "the program that measures is on another kind of machine than {}: {} is {} and {}; a cell of one rank ran here",
        hosts.front().name, other->what, one_line(other->base, 60), one_line(other->current, 60)));
  return hosts;
}

void note_unlike_libraries(Fork& fork, const std::vector<ConversationResult>& ranks) {
  const std::map<std::string, std::string> first = versions_of(ranks.front());
  std::map<std::string, bool> named;
  for (const ConversationResult& rank : ranks)
    for (const auto& [name, version] : versions_of(rank)) {
      const auto other = first.find(name);
      if (other == first.end() || other->second == version || std::exchange(named[rank.host + name], true))
        continue;
      doubt(fork, fmt::format("{} has {} {}, and {} has {}", ranks.front().host, name, other->second,
                              rank.host, version));
    }
}

}  // namespace assay
