#include "harness/conductor/backends/backends.hpp"

#include <unistd.h>

#include <string>
#include <system_error>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/paths.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

}  // namespace

fs::path executable_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error)
    throw ConfigError(fmt::format(
        "[proc] /proc/self/exe cannot be read: {}; Assay finds its own files and watches its workers through "
        "/proc: mount it (mount -t proc proc /proc)",
        error.message()));
  if (const std::string process = fs::read_symlink("/proc/self", error).string();
      process != std::to_string(::getpid()))
    throw ConfigError(fmt::format(
        "[proc] /proc is of another process namespace: this process is {} there and {} here, so Assay cannot watch its "
        "workers; mount the own one (mount -t proc proc /proc; unshare --mount-proc)",
        process.empty() ? "unknown" : process, ::getpid()));
  return self.parent_path();
}

std::vector<fs::path> backend_folders() {
  std::vector<fs::path> folders = environment_list("ASSAY_BACKENDS");
  for (fs::path& own : own_backend_folders()) folders.push_back(std::move(own));
  return folders;
}

std::vector<fs::path> own_backend_folders() {
  return {executable_folder() / "backends", executable_folder().parent_path() / "libexec/assay/backends"};
}

std::vector<fs::path> config_folders() {
  std::vector<fs::path> folders = environment_list("ASSAY_CONFIGS");
  folders.push_back(executable_folder() / "configs");
  folders.push_back(executable_folder().parent_path() / "share/assay/configs");
  folders.push_back(executable_folder().parent_path().parent_path() / "configs");
  return folders;
}

std::optional<fs::path> environment_of(std::string_view framework) {
  if (const std::string set = environment_text("ASSAY_ENVIRONMENTS"); !set.empty())
    return fs::path(set) / framework;
  if (const auto home = data_home()) return *home / "assay/environments" / framework;
  return std::nullopt;
}

fs::path environment_maker() {
  const std::vector<fs::path> folders = own_backend_folders();
  const auto script_in = [](const fs::path& folder) { return folder / "python/make_environment.py"; };
  for (const fs::path& folder : folders)
    if (std::error_code ignored; fs::exists(script_in(folder), ignored)) return script_in(folder);
  return script_in(folders.front());
}

fs::path importer_folder() {
  const std::string set = environment_text("ASSAY_IMPORTER");
  return set.empty() ? environment_maker().parent_path() : fs::path(set);
}

fs::path batch_library() {
  const fs::path built = executable_folder() / "libassay_batch.so";
  const fs::path installed = executable_folder().parent_path() / "lib/libassay_batch.so";
  std::error_code ignored;
  return !fs::exists(built, ignored) && fs::exists(installed, ignored) ? installed : built;
}

fs::path rank_program() {
  const fs::path built = executable_folder() / "assay-rank";
  const fs::path installed = executable_folder().parent_path() / "libexec/assay/assay-rank";
  std::error_code ignored;
  return !fs::exists(built, ignored) && fs::exists(installed, ignored) ? installed : built;
}

}  // namespace assay
