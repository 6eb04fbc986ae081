// The programs that start the ranks of a cell.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/config/cell.hpp"

namespace assay {

// Where the launcher is: on PATH, or in the environment of the backend's framework. nullopt if it is in neither.
// Precondition: not fork.
std::optional<std::filesystem::path> find_launcher(Launcher launcher, const BackendDescription& backend);

// Why the cell's ranks cannot be started by its launcher, with what to do; empty if they can.
struct LauncherRefusal {
  ReasonCode code = ReasonCode::absent;
  std::string reason;
};
std::optional<LauncherRefusal> launcher_refusal(const Cell& cell);

// Starts `rank_command` once for each rank of the cell, with the cell's own arguments between those of the launcher and the
// command, and its prefix before the launcher.
std::vector<std::string> launcher_command(const Cell& cell, const std::filesystem::path& program,
                                          const std::vector<std::string>& rank_command);

// The variables in which a launched process finds its number, split at commas.
std::string rank_variables(Launcher launcher);

// The variables that the launcher needs to start several ranks on a machine without moving them to processors of its
// choice, and without waiting for those that this program has. Those of the caller take precedence.
std::map<std::string, std::string> launcher_environment(Launcher launcher);

// The variables of the workers that undo what a launcher tells the framework.
std::map<std::string, std::string> launched_environment(Launcher launcher);

}  // namespace assay
