#include "harness/conductor/config/launchers.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "harness/core/paths.hpp"
#include "harness/core/text.hpp"
#include "harness/launch/passed_variables.hpp"

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

// Whether an mpirun is that of Open MPI, which hands on only the variables that it is told to.
bool is_open_mpi(const fs::path& program) {
  static std::map<std::string, bool> known;
  const auto [found, is_new] = known.try_emplace(program.string(), false);
  if (!is_new) return found->second;
  const std::string command = shell_word(program.string()) + " --version 2>/dev/null </dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> output(::popen(command.c_str(), "re"), ::pclose);
  std::array<char, 256> line{};
  while (output && std::fgets(line.data(), line.size(), output.get()))
    found->second = found->second ||
                    std::string_view(line.data()).find("Open MPI") != std::string_view::npos ||
                    std::string_view(line.data()).find("OpenRTE") != std::string_view::npos;
  return found->second;
}

// What follows a name among the launcher's own arguments: "--nnodes 2" or "--nnodes=2".
std::optional<std::string> argument_of(const std::vector<std::string>& arguments, std::string_view name) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    if (word == name && i + 1 < arguments.size()) return arguments[i + 1];
    if (word.starts_with(name) && word.size() > name.size() && word[name.size()] == '=')
      return std::string(word.substr(name.size() + 1));
  }
  return std::nullopt;
}

// The words of torchrun for its number of machines, which it is told with their rendezvous.
std::vector<std::string> torchrun_words(int ranks, const std::vector<std::string>& arguments) {
  const std::optional<std::string> nodes = argument_of(arguments, "--nnodes");
  const int count = nodes ? std::max(1, std::atoi(nodes->c_str())) : 1;
  std::vector<std::string> words;
  if (!nodes) words = {"--standalone", "--nnodes", "1"};
  if (!argument_of(arguments, "--nproc-per-node"))
    words.insert(words.end(), {"--nproc-per-node", std::to_string(ranks / count)});
  words.emplace_back("--no-python");
  return words;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
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
  const std::vector<std::string> arguments = words_of(cell.launcher_arguments);
  std::vector<std::string> command = words_of(cell.launcher_prefix);
  command.push_back(program.string());
  const auto add = [&](const std::vector<std::string>& words) {
    command.insert(command.end(), words.begin(), words.end());
  };
  switch (cell.launcher) {
    case Launcher::fork:
      break;
    case Launcher::mpirun:
      add({"-n", ranks});
      // Others than Open MPI hand on all variables.
      if (is_open_mpi(program)) add({"-x", rank_key_variable});
      break;
    case Launcher::srun:
      // The conductor gives each rank its processors.
      add({"--ntasks", ranks, "--cpus-per-task", std::to_string(cell.axes.all_threads()),
           "--kill-on-bad-exit=1"});
      break;
    case Launcher::torchrun:
      add(torchrun_words(cell.axes.ranks(), arguments));
      break;
  }
  add(arguments);
  add(rank_command);
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
                 {"OMPI_MCA_btl", "self,vader,tcp"},
                 {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"}};
  if (launcher == Launcher::srun) {
    // Since Slurm 20.11, a step waits for the processors of another one, also of the step that this program is in.
    variables["SLURM_OVERLAP"] = "1";
    // Where Slurm's PMIx makes a folder on each node, in which Open MPI keeps its session.
    variables["SLURM_PMIX_TMPDIR"] = temporary_folder().string();
  }
  std::erase_if(variables, [](const auto& one) { return environment_variable(one.first.c_str()); });
  return variables;
}

std::map<std::string, std::string> launched_environment(Launcher launcher) {
  // Otherwise PyTorch takes the rendezvous for a store that torchrun serves.
  if (launcher == Launcher::torchrun) return {{"TORCHELASTIC_USE_AGENT_STORE", "False"}};
  return {};
}

}  // namespace assay
