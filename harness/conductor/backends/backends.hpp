// The backends on this machine, described by their backend.json. The conductor knows no backend by name.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/core/domain.hpp"
#include "harness/core/json/fields.hpp"
#include "harness/core/launcher.hpp"
#include "harness/graph/op.hpp"

namespace assay {

// A file that a backend needs to start, to use some devices, or to train in several ranks.
struct Requirement {
  std::string file;                 // with placeholders
  std::vector<std::string> or_one;  // alternative files
  std::vector<DeviceKind> devices;  // the devices that need it; empty: all
  bool several_ranks = false;       // only cells with several ranks need it
  std::string reason, remedy;
};
inline Description describe(Of<Requirement>) {
  return fields(
      "requirement", "A file that the backend needs.",
      field("file", &Requirement::file, "Its path, with placeholders."),
      field("or", &Requirement::or_one, "Other files that do as well.").not_empty().optional(),
      field("devices", &Requirement::devices, "Devices that need it; if absent, the backend needs it.")
          .not_empty()
          .optional(),
      field("several_ranks", &Requirement::several_ranks,
            "Whether only cells with several ranks need it (default: false).")
          .optional(),
      field("reason", &Requirement::reason, "What is missing when it is not there."),
      field("remedy", &Requirement::remedy, "How to get it."));
}

// A rule for cells that a backend rejects; it can be read without starting the backend. A cell is rejected if
// all conditions hold; a condition that is not given always holds.
struct Refusal {
  // The axes of the cell have one of these values.
  std::vector<Task> tasks{};
  std::vector<DeviceKind> devices{};
  std::vector<std::string> modes{};
  std::vector<PrecisionKind> precisions{};
  std::vector<std::string> layouts{};
  std::vector<LoaderKind> loaders{};
  std::vector<std::string> recompute{};
  std::vector<std::string> optimizers{};
  std::vector<std::string> ops{};        // its graph contains one of these
  std::vector<std::string> other_ops{};  // its graph contains an op that is not one of these
  std::optional<bool> single_ops{};
  std::optional<bool> row_sparse{};      // an embedding has row-sparse gradients
  std::optional<bool> weight_decay{};    // the weight decay is not zero
  std::optional<bool> encoded_images{};  // the data set is decoded while it is read
  std::optional<bool> several_ranks{};   // several workers train one model together
  std::optional<bool> onnx_file{};       // the network was imported from a file of ONNX
  std::string reason{};
};
inline Description describe(Of<Refusal>) {
  return fields(
      "refusal", "Cells that the backend rejects: those for which all conditions hold.",
      field("tasks", &Refusal::tasks, "The task is one of these.").not_empty().optional(),
      field("devices", &Refusal::devices, "The device is one of these.").not_empty().optional(),
      field("modes", &Refusal::modes, "The mode is one of these.").not_empty().optional(),
      field("precisions", &Refusal::precisions, "The precision is one of these.").not_empty().optional(),
      field("layouts", &Refusal::layouts, "The layout is one of these.").not_empty().optional(),
      field("loaders", &Refusal::loaders, "The loader is one of these.").not_empty().optional(),
      field("recompute", &Refusal::recompute, "The recomputation is one of these.").not_empty().optional(),
      field("optimizers", &Refusal::optimizers, "The optimizer is one of these.").not_empty().optional(),
      field("ops", &Refusal::ops, "The graph has one of these ops.").not_empty().optional(),
      field("other_ops", &Refusal::other_ops, "The graph has an op that is not one of these.")
          .not_empty()
          .optional(),
      field("single_ops", &Refusal::single_ops, "Whether it is a single op.").optional(),
      field("row_sparse", &Refusal::row_sparse, "Whether an embedding has row-sparse gradients.").optional(),
      field("weight_decay", &Refusal::weight_decay, "Whether there is weight decay.").optional(),
      field("encoded_images", &Refusal::encoded_images, "Whether images are decoded while they are read.")
          .optional(),
      field("several_ranks", &Refusal::several_ranks, "Whether several workers train one model together.")
          .optional(),
      field("onnx_file", &Refusal::onnx_file, "Whether the network was imported from a file of ONNX.")
          .optional(),
      field("reason", &Refusal::reason, "Why, and what to use instead."));
}

// Words for several modes: each one, or the fastest one. No mode is called so.
inline constexpr std::string_view every_mode = "all", best_mode = "best";

struct BackendDescription {
  std::string name;
  std::string description;
  BackendKind kind = BackendKind::framework;  // of all modes but bare_modes
  bool oracle = false;
  std::vector<std::string> command;  // placeholders substituted; the cell folder is added when it is started
  std::string framework;             // whose environment it uses; empty for a program
  std::string interpreter;           // of --interpreter; empty: that of the framework's environment
  std::vector<DeviceKind> devices;
  std::vector<std::string> modes;
  std::vector<Task> tasks;
  std::vector<PrecisionKind> precisions;
  std::vector<std::string> layouts;
  std::vector<LoaderKind> loaders;
  std::vector<DeviceKind> memory_limits;  // that support --memory-fraction and --memory-cap
  std::vector<std::string> collectives;   // by which its ranks exchange gradients; empty: it has no ranks
  Launcher launcher =
      Launcher::fork;  // of its ranks, unless another one is requested; if it is not fork, never fork
  bool times_exchange = false;                // its workers answer the command `exchange`
  bool times_device = false;                  // its workers answer the command `time_device`
  std::vector<std::string> running_accuracy;  // modes whose loops can count it
  bool times_operators = false;               // its workers time each operator, for --profile
  std::vector<std::string> ops;               // that it supports; empty: not known
  std::optional<InitialScheme> initial;       // the defaults of its layers, for --initial own
  std::vector<Refusal> refusals;
  std::vector<std::string> bare_modes;  // those that run only a vendor's library
  std::string recommended;              // the default of --mode; empty: every mode
  // By device, instead of `recommended`: the first one that no rule refuses is the default.
  std::map<std::string, std::vector<std::string>> recommended_on;
  std::vector<std::string>
      compiles;  // modes that compile: a worker that reports no compiled graph in one has failed
  // Whether the timed program takes the masks of its dropouts as inputs; otherwise a second program does.
  bool timed_program_takes_masks = false;
  // Modes that compute in several teams of threads at once, and their number: each team gets its share of the cell's
  // threads, because teams of all threads would take each other's processors.
  std::map<std::string, int> thread_teams;
  std::vector<std::string> own_threads;  // modes in which the framework chooses the number of threads itself
  // Variables of its workers; all placeholders are substituted except ${cache}, the folder of compile caches, and
  // ${kept}, the folder of what the forks of a cell hand on.
  // `warm_environment` is only for --compile-cache warm.
  std::map<std::string, std::string> environment, warm_environment;
  std::vector<Requirement> requirements;
  std::filesystem::path folder;
  bool needs_environment =
      false;  // its command or a file that it requires is named with ${environment} or ${interpreter}
  // Named by "awaits" of a config; it has no folder here, and its properties are not known.
  bool awaited = false;
  // Why it cannot be started, and how to get it; empty if it can be started.
  std::string unavailable, remedy;
  // For each device that cannot be used here: why, and how to get it.
  std::map<DeviceKind, std::string> unavailable_on;
  // Why several of its workers cannot train together here, and how to get it; empty if they can, or never could.
  std::string unavailable_in_ranks;

  bool available() const { return unavailable.empty(); }
  bool is_bare(std::string_view mode) const {
    return std::ranges::find(bare_modes, mode) != bare_modes.end();
  }
  // Its kind in a mode: bare in a bare mode, else `kind`.
  BackendKind kind_of(std::string_view mode) const { return is_bare(mode) ? BackendKind::bare : kind; }
  // The teams of threads that compute at once in a mode; at least 1.
  int teams_of(const std::string& mode) const {
    const auto found = thread_teams.find(mode);
    return found == thread_teams.end() || found->second < 1 ? 1 : found->second;
  }
  // Whether a variable names a cache on disk, which --compile-cache warm keeps between forks.
  bool has_compile_cache() const;
};
// backend.json. The normative text is docs/reference/protocol.md.
inline Description describe(Of<BackendDescription>) {
  using B = BackendDescription;
  return fields(
      "backend", "Describes what a backend offers and how it is started: backend.json.",
      field("name", &B::name, "One word without slash or comma."),
      field("description", &B::description, "One line, for lists.").optional(),
      field("kind", &B::kind, "What executes the graph."),
      field("oracle", &B::oracle, "Whether it answers the exam for others: the command `oracle`.").optional(),
      field("command", &B::command, "Its worker and arguments, with placeholders.").not_empty(),
      field("framework", &B::framework, "The framework whose environment its worker runs in.").optional(),
      field("devices", &B::devices, "The devices that it runs on.").not_empty(),
      field("modes", &B::modes, "The modes in which it executes, in words of its own.").not_empty(),
      field("tasks", &B::tasks, "The tasks that it has.").not_empty(),
      field("precisions", &B::precisions, "The precisions that it computes in.").not_empty(),
      field("layouts", &B::layouts, "The layouts of activations that it has, in words of its own.")
          .not_empty(),
      field("loaders", &B::loaders, "The loaders that can feed it.").not_empty(),
      field("memory_limits", &B::memory_limits,
            "Devices on which it obeys `memory_fraction` and `memory_cap_bytes`.")
          .not_empty()
          .optional(),
      field(
          "collectives", &B::collectives,
          "The libraries by which its workers exchange gradients. Without it, several workers cannot train one model "
          "together: `--ranks` above 1 is refused.")
          .not_empty()
          .optional(),
      field(
          "launcher", &B::launcher,
          "What starts its ranks by default (default: `fork`, the conductor itself). If it is another one, its ranks "
          "cannot be started by `fork`.")
          .optional(),
      field("times_exchange", &B::times_exchange,
            "Whether its workers answer the command `exchange` (default: false).")
          .optional(),
      field("times_device", &B::times_device,
            "Whether its workers answer the command `time_device` (default: false).")
          .optional(),
      field(
          "running_accuracy", &B::running_accuracy,
          "Modes whose loops count the accuracy of the batches on which they train, for `--running-accuracy`.")
          .not_empty()
          .optional(),
      field("times_operators", &B::times_operators,
            "Whether its workers time each operator, for `--profile` (default: false).")
          .optional(),
      field("ops", &B::ops, "The ops that it has; this decides nothing.").not_empty().optional(),
      field("initial", &B::initial, "The initial values that its layers have by default: `--initial own`.")
          .optional(),
      field("refuses", &B::refusals, "Cells that it refuses.").not_empty().optional(),
      field(
          "bare_modes", &B::bare_modes,
          "The modes that are `bare` although `kind` is something else. Next to other backends, a run without `--mode` also "
          "takes the first of them in which the cell is not refused.")
          .not_empty()
          .optional(),
      field("recommended", &B::recommended,
            "The mode that a run takes without `--mode` (default: every mode takes part).")
          .optional(),
      field(
          "recommended_on", &B::recommended_on,
          "For a device, the modes that a run takes there instead: the first one in which the cell is not refused.")
          .optional(),
      field(
          "compiles", &B::compiles,
          "Modes that compile. In one of them, a worker whose setting `compiled_graphs` is 0 after the run has failed: its "
          "row would show another mode.")
          .not_empty()
          .optional(),
      field(
          "timed_program_takes_masks", &B::timed_program_takes_masks,
          "Whether the exam's masks of dropout are fed to the program that is timed; otherwise to a second one (default: "
          "false).")
          .optional(),
      field(
          "thread_teams", &B::thread_teams,
          "Modes whose workers compute in several teams of threads at once, with the number of teams. Each team gets its "
          "share of the cell's threads, rounded down, by `OMP_NUM_THREADS` and the like. Fewer threads than teams are "
          "refused.")
          .optional(),
      field(
          "own_threads", &B::own_threads,
          "Modes whose workers choose the number of their threads by themselves, from the processors that they may run on: "
          "`OMP_NUM_THREADS` and the like are not set.")
          .not_empty()
          .optional(),
      field(
          "environment", &B::environment,
          "The variables of its workers. Those of `--environment` take precedence, except for values with `${cache}` or "
          "`${kept}`.")
          .optional(),
      field("warm_environment", &B::warm_environment,
            "The same, only with `--compile-cache warm`, which needs a variable with `${cache}`.")
          .optional(),
      field("requires", &B::requirements, "Files that it needs: if one is missing, it is unavailable.")
          .optional());
}

using Interpreters = std::map<std::string, std::string, std::less<>>;  // framework -> Python
// Parses items such as "torch=/usr/bin/python3". Throws ConfigError.
Interpreters parse_interpreters(const std::vector<std::string>& given);

// Throws JsonError naming the file and the field, and ConfigError for a name or placeholder that is not
// allowed.
BackendDescription backend_from_json(const nlohmann::json& json, const std::filesystem::path& file,
                                     const Interpreters& interpreters);

struct BackendRegistry {
  std::vector<BackendDescription> backends;  // ordered by name; names are unique: the first found
  // One line for each backend.json that cannot be read, that is replaced by an earlier one of the same name,
  // or that is a further oracle.
  std::vector<std::string> faults;

  // nullptr if not found.
  const BackendDescription* find(std::string_view name) const;
  // The available backend whose backend.json has "oracle": true; nullptr without one. If there are
  // several, the one of the last folder, so that an added backend does not become the oracle by accident.
  const BackendDescription* oracle() const;
};

// Adds a backend that a config awaits, with those modes, as unavailable. Does nothing if the backend exists.
void add_awaited_backend(BackendRegistry& registry, const std::string& name,
                         const std::vector<std::string>& modes);

// Only reads files; starts nothing. A folder of $ASSAY_BACKENDS without any backend is a fault.
BackendRegistry find_backends(const Interpreters& interpreters = {});
BackendRegistry find_backends_in(const std::vector<std::filesystem::path>& folders,
                                 const Interpreters& interpreters);

// Which backend has which op, as each backend.json says.

// Whether graph.json may contain the op. The other ops (gradients, casts and optimizers) are added by the
// training step of a backend that does not differentiate by itself; a framework has its own.
bool in_networks(const Op& op);

// "yes"; "own" for a framework and an op that it never sees; "no"; "?" for a backend that does not list its
// ops.
std::string support(const BackendDescription& backend, const Op& op);

// A Markdown table of the ops in networks, with a column for each backend that lists its ops, for
// docs/reference/op-support.md.
std::string support_page(const std::vector<BackendDescription>& backends);

// The folders of files outside the program: backends, configs, environments.

// The folder of the running executable. Throws ConfigError without /proc. In a build folder this is <source>/build/<preset>.
std::filesystem::path executable_folder();

// Folders whose subfolders are backends: those that $ASSAY_BACKENDS adds, then those of the program.
std::vector<std::filesystem::path> backend_folders();
// Those of the program: <exe folder>/backends, <exe folder>/../libexec/assay/backends.
std::vector<std::filesystem::path> own_backend_folders();
// $ASSAY_CONFIGS, <exe folder>/configs, <exe folder>/../share/assay/configs, <exe folder>/../../configs (a
// build in its tree).
std::vector<std::filesystem::path> config_folders();
// A framework's virtual environment:
// ${ASSAY_ENVIRONMENTS:-${XDG_DATA_HOME:-$HOME/.local/share}/assay/environments}/<framework>. nullopt if none
// of the three is set: a folder that everybody may write is not safe for programs.
std::optional<std::filesystem::path> environment_of(std::string_view framework);
// The script that makes such an environment: in python/ in a folder of own_backend_folders(). The first path if it
// is in none.
std::filesystem::path environment_maker();
// The folder of the package assay_import: that of ASSAY_IMPORTER, or next to environment_maker().
std::filesystem::path importer_folder();
// The batch library for workers that load it themselves: <exe folder>/libassay_batch.so, or in ../lib once
// installed. The first path if neither exists.
std::filesystem::path batch_library();
// What a launcher starts for each rank: <exe folder>/assay-rank, or in ../libexec/assay once installed. The first path if
// neither exists.
std::filesystem::path rank_program();

}  // namespace assay
