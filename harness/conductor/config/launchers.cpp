#include "harness/conductor/config/launchers.hpp"

#include <unistd.h>

#include <sstream>

#include <fmt/format.h>

#include "harness/core/paths.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::string_view remedy_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::fork:
      break;
    case Launcher::mpirun:
      return "scripts/setup --mpi";
    case Launcher::srun:
      return "scripts/setup --slurm";
    case Launcher::torchrun:
      return "it is part of PyTorch: add the folder bin of its environment to PATH";
  }
  return "";
}

}  // namespace

std::optional<fs::path> find_launcher(Launcher launcher, const BackendDescription& backend) {
  std::vector<fs::path> folders = environment_list("PATH");
  if (!backend.framework.empty())
    if (const auto environment = environment_of(backend.framework)) folders.push_back(*environment / "bin");
  for (const fs::path& folder : folders) {
    const fs::path program = folder / to_string(launcher);
    std::error_code ignored;
    if (fs::is_regular_file(program, ignored) && ::access(program.c_str(), X_OK) == 0) return program;
  }
  return std::nullopt;
}

std::optional<LauncherRefusal> launcher_refusal(const Cell& cell) {
  if (cell.axes.ranks() == 1) return std::nullopt;
  const Launcher usual = cell.backend->launcher;
  if (cell.launcher == Launcher::fork && usual != Launcher::fork)
    return LauncherRefusal{ReasonCode::ranks_not_supported,
                           fmt::format("[{}] does not support --launcher fork: its ranks find each other "
                                       "through their launcher; use --launcher {}",
                                       cell.backend->name, to_string(usual))};
  if (cell.launcher == Launcher::fork) return std::nullopt;
  if (cell.launcher == Launcher::torchrun && cell.backend->collectives == std::vector<std::string>{"mpi"})
    return LauncherRefusal{ReasonCode::ranks_not_supported,
                           fmt::format("[{}] does not support --launcher torchrun, which starts no MPI; use "
                                       "--launcher mpirun",
                                       cell.backend->name)};
  if (!find_launcher(cell.launcher, *cell.backend))
    return LauncherRefusal{ReasonCode::launcher_missing,
                           fmt::format("[launcher] {} is not in a folder of PATH; {}",
                                       to_string(cell.launcher), remedy_of(cell.launcher))};
  if (const fs::path program = rank_program(); ::access(program.c_str(), X_OK) != 0)
    return LauncherRefusal{
        ReasonCode::launcher_missing,
        fmt::format("[launcher] {} does not exist; install Assay again", program.string())};
  return std::nullopt;
}

std::vector<std::string> launcher_command(const Cell& cell, const fs::path& program,
                                          const std::vector<std::string>& rank_command) {
  const std::string ranks = std::to_string(cell.axes.ranks());
  std::vector<std::string> command = {program.string()};
  const auto add = [&](std::initializer_list<std::string> words) {
    command.insert(command.end(), words.begin(), words.end());
  };
  switch (cell.launcher) {
    case Launcher::fork:
      break;
    case Launcher::mpirun:
      add({"-n", ranks});
      break;
    case Launcher::srun:
      // The conductor gives each rank its processors. A socket of one machine cannot be reached from another.
      add({"--ntasks", ranks, "--nodes", "1", "--cpus-per-task", std::to_string(cell.axes.all_threads()),
           "--kill-on-bad-exit=1"});
      break;
    case Launcher::torchrun:
      add({"--standalone", "--nnodes", "1", "--nproc-per-node", ranks, "--no-python"});
      break;
  }
  std::istringstream words(cell.launcher_arguments);
  for (std::string word; words >> word;) command.push_back(word);
  command.insert(command.end(), rank_command.begin(), rank_command.end());
  return command;
}

std::string rank_variables(Launcher launcher) {
  switch (launcher) {
    case Launcher::fork:
      break;
    case Launcher::mpirun:
      return "OMPI_COMM_WORLD_RANK,PMIX_RANK,PMI_RANK";
    case Launcher::srun:
      return "SLURM_PROCID";
    case Launcher::torchrun:
      return "RANK";
  }
  return "";
}

std::map<std::string, std::string> launcher_environment(Launcher launcher) {
  std::map<std::string, std::string> variables;
  if (launcher == Launcher::mpirun || launcher == Launcher::srun)
    // Of Open MPI; other launchers ignore them. Confined ranks may not read each other's memory, so vader copies twice.
    variables = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                 {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                 {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                 {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                 {"OMPI_MCA_pml", "ob1"},
                 {"OMPI_MCA_btl", "self,vader"},
                 {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"}};
  if (launcher == Launcher::srun)
    // Since Slurm 20.11, a step waits for the processors of another one, also of the step that this program is in.
    variables["SLURM_OVERLAP"] = "1";
  std::erase_if(variables, [](const auto& one) { return environment_variable(one.first.c_str()); });
  return variables;
}

std::map<std::string, std::string> launched_environment(Launcher launcher) {
  // Otherwise PyTorch takes the rendezvous for a store that torchrun serves.
  if (launcher == Launcher::torchrun) return {{"TORCHELASTIC_USE_AGENT_STORE", "False"}};
  return {};
}

}  // namespace assay
