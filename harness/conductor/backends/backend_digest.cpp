#include "harness/conductor/backends/backend_digest.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "harness/core/io/file_digest.hpp"
#include "harness/core/io/sha256.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

// Made by a build, an editor, or a worker that compiles its scripts.
bool is_left_out(const fs::path& entry) {
  const std::string name = entry.filename().string();
  return name.starts_with('.') || name.ends_with('~') || name.ends_with(".pyc") || name.ends_with(".cmake") ||
         name == "__pycache__" || name == "CMakeFiles";
}

// Files by their name in the digest.
using NamedFiles = std::map<std::string, fs::path>;

constexpr std::size_t max_backend_files = 4096;

void add_folder(NamedFiles& files, const std::string& name, const fs::path& folder) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end && files.size() < max_backend_files;
       entry.increment(error)) {
    constexpr int max_depth = 8;
    std::error_code ignored;
    if (is_left_out(entry->path()) || entry.depth() >= max_depth) {
      entry.disable_recursion_pending();
      if (is_left_out(entry->path())) continue;
    }
    if (entry->is_regular_file(ignored))
      files.emplace(name + "/" + entry->path().lexically_relative(folder).string(), entry->path());
  }
}

bool is_named(const NamedFiles& files, const fs::path& path) {
  return std::ranges::any_of(files, [&](const auto& file) { return file.second == path; });
}

bool has_script(const NamedFiles& files) {
  for (const auto& [name, path] : files)
    if (path.extension() == ".py") return true;
  return false;
}

NamedFiles files_of(const BackendDescription& backend) {
  NamedFiles files;
  add_folder(files, "here", backend.folder);
  for (std::size_t i = 0; i < backend.command.size(); ++i)
    if (const fs::path path = backend.command[i]; path.is_absolute() && !is_named(files, path))
      files.emplace(fmt::format("command/{}", i), path);
  if (has_script(files))
    for (const char* package : {"assay_worker", "assay_onnx"})
      add_folder(files, package, environment_maker().parent_path() / package);
  files.emplace("batch library", batch_library());
  return files;
}

}  // namespace

BackendDigest digest_of(const BackendDescription& backend) {
  BackendDigest digest;
  Sha256 adapter, program;
  for (const auto& [name, path] : files_of(backend)) {
    const std::optional<KnownFile> file = digest_of_file(path);
    if (!file) continue;
    const bool is_local = file->is_machine_code || path.filename() == "backend.json";
    (is_local ? program : adapter).add(fmt::format("{}  {}\n", file->sha256, name));
    digest.files.emplace(name, file->sha256);
  }
  digest.adapter = adapter.finish();
  digest.program = program.finish();
  return digest;
}

std::string changed_backend_file(const BackendDigest& before, const BackendDigest& after) {
  for (const auto& [name, sum] : before.files)
    if (const auto now = after.files.find(name); now == after.files.end() || now->second != sum) return name;
  for (const auto& [name, sum] : after.files)
    if (!before.files.contains(name)) return name;
  return {};
}

}  // namespace assay
