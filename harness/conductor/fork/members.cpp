#include "harness/conductor/fork/members.hpp"

#include <set>

#include <fmt/format.h>

#include "harness/conductor/process/remote_worker.hpp"
#include "harness/conductor/process/team.hpp"
#include "harness/machine/cores.hpp"

namespace assay {

namespace {

constexpr const char* loopback = "127.0.0.1";

// The address at which the others find rank 0, as the connections of the launch show it.
std::string address_of_rank_0(Launch& launch, int world) {
  if (launch.hosts() == 1) return loopback;
  if (const std::string peer = launch.link(0).peer_address(); !peer.starts_with("127.")) return peer;
  // Rank 0 is on the machine of this process.
  for (int rank = 1; rank < world; ++rank)
    if (const std::string own = launch.link(rank).own_address(); !own.starts_with("127.")) return own;
  return loopback;
}

std::vector<Member> launched_members(const Cell& cell, const std::filesystem::path& folder, Launch& launch) {
  const int world = cell.axes.ranks();
  const std::string address = cell.rendezvous.empty() ? address_of_rank_0(launch, world) : cell.rendezvous;
  const std::string rendezvous = keep_port_of_rank_0(launch, address);
  std::vector<Member> members;
  for (int rank = 0; rank < world; ++rank) {
    const RankHere& here = launch.here(rank);
    const Launch::Seat seat = launch.seat(rank);
    RankPlace place{rank,      world,      rendezvous, seat.local,   seat.neighbours,
                    here.host, here.cores, 0,          here.scratch, launch.is_apart()};
    // A launcher may have given each rank of a machine processors of its own.
    for (const Member& other : members)
      if (other.place.host == here.host && other.place.cores == here.cores) ++place.lane;
    members.push_back(
        {.place = std::move(place), .folder = folder / fmt::format("rank-{}", rank), .plan = {}});
  }
  return members;
}

}  // namespace

std::vector<Member> members_of(const Cell& cell, const std::filesystem::path& folder, Launch* launch) {
  if (launch) return launched_members(cell, folder, *launch);
  const int world = cell.axes.ranks();
  std::vector<Member> members;
  if (world == 1) {
    members.push_back({.place = {}, .folder = folder, .plan = {}});
    return members;
  }
  Rendezvous rendezvous = free_rendezvous(cell.rendezvous.empty() ? loopback : cell.rendezvous);
  for (int rank = 0; rank < world; ++rank)
    members.push_back({.place = {rank, world, rendezvous.place, rank, world},
                       .folder = folder / fmt::format("rank-{}", rank),
                       .plan = {}});
  members.front().kept_port = std::move(rendezvous.kept);
  return members;
}

std::string changed_file(const std::vector<Member>& members) {
  for (const Member& member : members)
    if (std::string changed = member.given ? member.given->changed() : ""; !changed.empty()) return changed;
  return {};
}

std::vector<RankAnswers> answers_of(const std::vector<Member>& members, const RunAudit& audit) {
  std::vector<RankAnswers> answers;
  for (const Member& member : members)
    answers.push_back({member.folder / "results/verify.safetensors", answers.empty() ? audit : RunAudit{}});
  for (RankAnswers& one : answers) {
    one.audit.own_loader = audit.own_loader;
    one.audit.draws_masks = audit.draws_masks;
    one.audit.deterministic = audit.deterministic;
    one.audit.excerpt = audit.excerpt;
  }
  return answers;
}

std::string cores_of(const Member& member) {
  return member.plan.worker.cores.empty() ? "inherited" : cores_text(member.plan.worker.cores);
}

std::string cores_of(const std::vector<Member>& members) {
  if (members.size() == 1) return cores_of(members.front());
  std::string text;
  for (const Member& member : members)
    text += fmt::format("{}rank {}: {}", text.empty() ? "" : "; ", member.place.rank, cores_of(member));
  return text;
}

std::vector<int> processors_with(const std::vector<Member>& members, std::size_t rank) {
  std::set<int> cores;
  for (const Member& member : members) {
    if (member.place.host != members[rank].place.host) continue;
    if (member.plan.worker.cores.empty()) return {};
    cores.insert(member.plan.worker.cores.begin(), member.plan.worker.cores.end());
  }
  return {cores.begin(), cores.end()};
}

std::vector<int> watched_processors(const Cell& cell, const std::vector<Member>& members) {
  if (cell.axes.device != DeviceKind::cpu || members.front().place.is_apart) return {};
  const std::vector<int> all = processors_with(members, 0);
  return one_per_core(all.empty() ? usable_cores() : all);
}

}  // namespace assay
