#include "harness/conductor/fork/members.hpp"

#include <set>

#include <fmt/format.h>

#include "harness/conductor/process/team.hpp"
#include "harness/machine/cores.hpp"

namespace assay {

std::vector<Member> members_of(const Cell& cell, const std::filesystem::path& folder) {
  const int world = cell.axes.ranks();
  std::vector<Member> members;
  if (world == 1) {
    members.push_back({.place = {}, .folder = folder, .plan = {}});
    return members;
  }
  Rendezvous rendezvous = free_rendezvous(cell.rendezvous);
  for (int rank = 0; rank < world; ++rank)
    members.push_back({.place = {rank, world, rendezvous.place},
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

std::vector<int> watched_processors(const Cell& cell, const std::vector<Member>& members) {
  if (cell.axes.device != DeviceKind::cpu) return {};
  std::set<int> cores;
  for (const Member& member : members) {
    if (member.plan.worker.cores.empty()) return one_per_core(usable_cores());
    cores.insert(member.plan.worker.cores.begin(), member.plan.worker.cores.end());
  }
  return one_per_core({cores.begin(), cores.end()});
}

}  // namespace assay
