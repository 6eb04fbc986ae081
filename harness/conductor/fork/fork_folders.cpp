#include "harness/conductor/fork/fork_folders.hpp"

#include <atomic>
#include <system_error>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/remove_tree.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

// `path` after everything there was removed, or a path next to it where nothing is.
fs::path free_path(const fs::path& path) {
  constexpr int max_tries = 1000;
  fs::path found = path;
  for (int i = 2; i < max_tries && !remove_tree(found).empty(); ++i)
    found = path.string() + fmt::format("-{}", i);
  return found;
}

}  // namespace

ForkFolders::ForkFolders(const fs::path& scratch, std::string_view name, bool keep) : keep_(keep) {
  static std::atomic<int> number{0};
  folders_.cell = free_path(scratch / name);
  folders_.temporary = free_path(scratch / fmt::format("tmp-{}", ++number));
  fs::create_directories(folders_.cell);
  fs::create_directories(folders_.temporary);
}

ForkFolders::~ForkFolders() {
  if (keep_) return;
  remove_tree(folders_.cell);
  remove_tree(folders_.temporary);
}

void remove_earlier(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() == "log" || entry.path().filename() == "cache") continue;
    if (const std::string left = remove_tree(entry.path()); !left.empty()) throw Error("[fork] " + left);
  }
}

std::string what_is_left(const WorkerFolders& folders) {
  std::error_code error;
  for (const fs::path& folder : {folders.cell, folders.temporary})
    if (fs::exists(folder, error)) return remove_tree(folder);
  return {};
}

}  // namespace assay
