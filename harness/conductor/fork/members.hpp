// The workers of a fork: one, or one for each rank.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/ranks.hpp"
#include "harness/conductor/fork/cell_folder.hpp"
#include "harness/conductor/fork/given_files.hpp"
#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/process/launch.hpp"
#include "harness/core/io/file.hpp"

namespace assay {

// A worker of the cell, and where it works.
struct Member {
  RankPlace place;
  std::filesystem::path folder;
  ConversationPlan plan;
  std::optional<GivenFiles> given{};  // if it gets an exam
  Descriptor kept_port{};             // of rank 0, if this process starts it: where the ranks find each other
};

// The cell's workers, each with its folder: `folder` itself, or one below it for each of several ranks. `launch`: what
// started the ranks, which are there; null: this process starts them. Throws Error.
std::vector<Member> members_of(const Cell& cell, const std::filesystem::path& folder, Launch* launch);

// The processors of the worker, or "inherited".
std::string cores_of(const Member& member);
// The processors of all workers, or "rank 0: 0; rank 1: 1".
std::string cores_of(const std::vector<Member>& members);

// The processors of all workers on the machine of this one; none if one of them is not pinned.
std::vector<int> processors_with(const std::vector<Member>& members, std::size_t rank);

// The workers' processors that do not share a physical core as far as the system shows it; none if the work is on a GPU,
// or on several machines.
std::vector<int> watched_processors(const Cell& cell, const std::vector<Member>& members);

// Describes a file that one of the workers changed; empty if none was changed.
std::string changed_file(const std::vector<Member>& members);

// Where the workers answer. The first one is judged by what other programs computed of the run.
std::vector<RankAnswers> answers_of(const std::vector<Member>& members, const RunAudit& audit);

}  // namespace assay
