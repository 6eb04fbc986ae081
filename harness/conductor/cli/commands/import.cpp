// assay import: makes the folder of a network from a user's file, and verifies it.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/backends/frameworks.hpp"
#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/cli/import_verification.hpp"
#include "harness/conductor/process/confined_program.hpp"
#include "harness/conductor/process/worker_process.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/remove_tree.hpp"
#include "harness/core/paths.hpp"
#include "harness/core/text.hpp"
#include "workloads/imported_network.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

struct ImportOptions {
  std::string source, out, output, python;
  std::vector<std::string> shapes, bound, no_lift;
  bool free_batch = false, train_constants = false, dry_run = false, json = false, no_verify = false;
};

// A folder next to the one that will be there; gone with the object, unless it was renamed.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& out) {
    const fs::path parent = out.has_parent_path() ? out.parent_path() : fs::path(".");
    make_folder_of(out);
    std::string path = (parent / ".assay-import-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) throw IoError("import", parent, "cannot be written", errno);
    root_ = fs::canonical(path);
    folder_ = root_ / out.filename();
    fs::create_directory(folder_);
    fs::permissions(folder_, fs::perms::owner_all);
  }
  ~NewFolder() { remove_tree(root_); }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const fs::path& path() const { return folder_; }
  void become(const fs::path& out) { fs::rename(folder_, out); }

 private:
  fs::path root_, folder_;
};

fs::path place_of(const ImportOptions& options) {
  if (options.out.empty()) {
    if (options.dry_run) return fs::temp_directory_path() / "network";
    throw UsageError("import: --out is missing: name the folder to make, such as --out models/mine");
  }
  fs::path out = fs::path(options.out).lexically_normal();
  if (!out.has_filename()) out = out.parent_path();
  require_folder_name(out);
  if (!options.dry_run && fs::exists(fs::symlink_status(out)))
    throw UsageError(fmt::format("import: {} is there already; remove it, or name another folder with --out",
                                 out.string()));
  return out;
}

// The Python that reads the file. A file of torch.export needs only numpy.
std::string interpreter_of(const ImportOptions& options) {
  if (!options.python.empty()) return options.python;
  const auto environment = environment_of("import");
  const fs::path python = environment ? *environment / "bin/python" : fs::path();
  if (!python.empty() && fs::exists(python)) return python.string();
  if (fs::path(options.source).extension() == ".pt2") return "python3";
  throw UsageError("import: the environment of the importer is not set up: run assay setup import");
}

// The importer works in a folder of its own.
std::vector<std::string> with_absolute_files(std::vector<std::string> bound) {
  for (std::string& value : bound) {
    const std::size_t equals = value.find('=');
    if (equals != std::string::npos && value.ends_with(".npy"))
      value = value.substr(0, equals + 1) + fs::absolute(value.substr(equals + 1)).string();
  }
  return bound;
}

std::vector<std::string> command_of(const ImportOptions& options, const NewFolder& folder) {
  std::vector<std::string> command{
      interpreter_of(options), "-m", "assay_import", fs::absolute(options.source).string(), "--out",
      folder.path().string()};
  const auto add = [&](const char* option, const std::vector<std::string>& values) {
    for (const std::string& value : values) command.insert(command.end(), {option, value});
  };
  add("--shape", options.shapes);
  add("--bind", with_absolute_files(options.bound));
  add("--no-lift", options.no_lift);
  if (!options.output.empty()) add("--output", {options.output});
  if (options.free_batch) command.emplace_back("--free-batch");
  if (options.train_constants) command.emplace_back("--train-constants");
  if (options.dry_run) command.emplace_back("--dry-run");
  if (options.json) command.emplace_back("--json");
  return command;
}

std::string last_line(const std::string& errors) {
  std::string line = last_line_of(errors);
  if (line.starts_with("error: ")) line.erase(0, 7);
  return line.empty() ? "it says no reason" : one_line(line);
}

std::string without(std::string text, const std::string& part) {
  for (std::size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
  return text;
}

int interrupted_by(int signal) {
  warn(fmt::format("import: interrupted by SIG{}; nothing was made", ::sigabbrev_np(signal)));
  return incomplete;
}

// The exit code of the command if the importer did not succeed.
int explain(const ConfinedEnd& end, const ImportOptions& options, const ConfinedProgram& program) {
  if (end.signal != 0) return interrupted_by(end.signal);
  if (end.timed_out)
    throw UsageError(
        fmt::format("import: {} was not read within {} s", options.source, program.patience.count()));
  if (end.exit.signal != 0)
    throw UsageError(
        fmt::format("import: the importer {} while it read {}; it may use {:.1f} GiB of memory and {} s",
                    to_string(end.exit), options.source, static_cast<double>(program.memory_bytes) * 0x1p-30,
                    program.patience.count()));
  if (end.exit.code == 2) throw UsageError("import: " + last_line(end.errors));
  if (end.exit.code != 0) {
    warn(fmt::format("import: the importer has a fault: {}", last_line(end.errors)));
    return own_failure;
  }
  return fine;
}

ConfinedProgram importer(const ImportOptions& options, const NewFolder& folder) {
  constexpr std::uint64_t base = std::uint64_t{4} << 30, per_byte = 12;
  const std::uint64_t bytes = fs::file_size(options.source);
  return {.command = command_of(options, folder),
          .folder = folder.path(),
          .environment = {{"PYTHONPATH", importer_folder().string()},
                          {"PYTHONDONTWRITEBYTECODE", "1"},
                          {"PYTHONNOUSERSITE", "1"},
                          {"OPENBLAS_NUM_THREADS", "1"}},
          .memory_bytes = base + per_byte * bytes,
          .file_bytes = base + 2 * bytes};
}

int import(const ImportOptions& options) {
  if (!fs::is_regular_file(options.source))
    throw UsageError(fmt::format("import: '{}' is not a file", options.source));
  const fs::path out = place_of(options);
  NewFolder folder(out);
  const ConfinedProgram program = importer(options, folder);
  // Until the verification, which has its own.
  std::optional<Interrupts> interrupts(std::in_place);
  const ConfinedEnd end = [&] {
    try {
      return run_confined(program, *interrupts);
    } catch (const std::system_error& error) {
      throw UsageError(fmt::format("import: {} cannot be started: {}; name another Python with --python",
                                   program.command.front(), error.code().message()));
    }
  }();
  if (const int code = explain(end, options, program); code != fine || options.dry_run) return code;
  const Workload network = [&] {
    try {
      return read_network(folder.path());
    } catch (const Error& error) {  // the folder will be gone
      throw UsageError(fmt::format("import: {} makes no network: {}", options.source,
                                   without(error.what(), folder.path().string() + "/")));
    }
  }();
  if (interrupts->signal() != 0) return interrupted_by(interrupts->signal());
  interrupts.reset();
  const Verification verification = verify_import(folder.path(), !options.no_verify, options.free_batch);
  if (verification.outcome == Verification::Outcome::failed) {
    warn(fmt::format("import: {} was not made: {}", out.string(), verification.text));
    return incomplete;
  }
  write_atomically(folder.path() / verified_name, verification.document.dump(1) + "\n", false);
  folder.become(out);
  if (!options.json)
    print(fmt::format("{}: {}, {}; {}\nuse it: assay run --workload {}\n", out.string(), network.name,
                      plural(network.parameters, "parameter"), verification.text, text_of_folder(out)));
  return fine;
}

}  // namespace

void add_import(CLI::App& app, Context& context) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* command = app.add_subcommand(
      "import", "Make a workload from your own network: an ONNX file or one of torch.export");
  command->add_option("SOURCE", options->source, "The file: MODEL.onnx, or MODEL.pt2 of torch.export.save")
      ->required();
  command->add_option("--out", options->out, "The folder to make, such as models/mine")->type_name("FOLDER");
  command
      ->add_option("--shape", options->shapes, "The shape of an input, such as x=N,3,224,224; N is the batch")
      ->type_name("NAME=SHAPE");
  command->add_option("--bind", options->bound, "A constant for another input: ones, zeros or a file.npy")
      ->type_name("NAME=VALUE");
  command->add_option("--output", options->output, "The output with the logits, if there are several");
  command->add_option("--no-lift", options->no_lift, "Keep the nodes that this rule would join into one op")
      ->type_name("RULE");
  command->add_flag("--free-batch", options->free_batch, "Replace a batch that is written in the file by N");
  command->add_flag("--train-constants", options->train_constants, "Constants of the file are trained, too");
  command->add_flag("--dry-run", options->dry_run, "Make nothing; list everything that is not supported");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--no-verify", options->no_verify,
                    "Do not compare the network with its file in ONNX Runtime");
  command
      ->add_option("--python", options->python,
                   "The Python that reads the file (default: that of assay setup import)")
      ->type_name("FILE");
  add_examples(*command, {"assay import model.onnx --shape x=N,3,224,224 --out models/mine",
                          "assay import model.pt2 --dry-run"});
  command->callback([options, &context] { context.action = [options] { return import(*options); }; });
}

}  // namespace assay::cli
