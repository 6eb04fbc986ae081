// Plans the start of a cell's worker: its program, processors and environment.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/config/ranks.hpp"
#include "harness/conductor/fork/fork_context.hpp"
#include "harness/conductor/process/conversation.hpp"
#include "harness/conductor/process/launch.hpp"

namespace assay {

// Where a worker works. `temporary` has a short path, because it may contain sockets; all ranks of a cell share it.
struct WorkerFolders {
  std::filesystem::path cell, temporary;
};

// The conversation of a worker of `backend` in a cell folder; `backend` is that of the cell, or the oracle.
// Creates the folders of its caches. Ranks get different processors as long as there are enough.
ConversationPlan plan_for(const Cell& cell, const BackendDescription& backend, const WorkerFolders& folders,
                          std::vector<protocol::Command> commands, const ForkContext& context,
                          const RankPlace& place = {});

// How the cell's ranks are started, if not by this process; the folders are those of the cell. Throws Error if the
// launcher has gone.
std::optional<LaunchPlan> launch_plan(const Cell& cell, const WorkerFolders& folders);

// What no worker may change: the report with the other files of its folder (`report` is empty without one), the folders
// of all backends, the environments of their frameworks, and the data, weights and imported networks that the user named.
// Of a folder below /dev only the report itself; no folder in which every program makes files, such as /tmp.
std::vector<std::filesystem::path> protected_paths(const std::filesystem::path& report,
                                                   const BackendRegistry& registry,
                                                   const RunSettings& settings,
                                                   const std::vector<Cell>& cells);

// The variables that affect speed and that every worker of the run gets: those of --environment, and those of this process
// that reach workers or launchers.
std::map<std::string, std::string> session_variables(const RunSettings& settings);
// The names of the variables of this process that affect speed and reach no worker.
std::vector<std::string> dropped_variables(const RunSettings& settings);
// The variables of a worker that affect speed and differ from those of the session.
std::map<std::string, std::string> own_variables(const WorkerStart& worker, const RunSettings& settings);

// Why the libraries that the cell's framework compiles cannot be made in the folder in which a worker keeps them, or loaded
// from there, with the remedy; empty if they can. `may_execute`: may_execute_in().
std::string why_code_is_not_loaded(const Cell& cell,
                                   bool (*may_execute)(const std::filesystem::path& folder));

// The variables that set how waiting OpenMP threads of a worker behave.
std::string wait_policy(const WorkerStart& worker);

}  // namespace assay
