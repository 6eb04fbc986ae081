#include "harness/conductor/store/machine_store.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/core/paths.hpp"
#include "harness/report/environment_difference.hpp"

namespace assay {

namespace fs = std::filesystem;

MachineStore::MachineStore(fs::path folder, std::size_t max_files)
    : folder_(std::move(folder)), max_files_(max_files) {}

MachineStore MachineStore::in_cache(std::string_view folder) { return MachineStore(cache_folder() / folder); }

fs::path MachineStore::place(std::string_view fingerprint, std::string_view name) const {
  return name.empty() ? folder_ / fmt::format("{}.json", fingerprint)
                      : folder_ / fingerprint / fmt::format("{}.json", name);
}

std::vector<fs::path> MachineStore::files_of(std::string_view fingerprint) const {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const char* ending : {".json", ".json.gz"})
    if (fs::path file = folder_ / fmt::format("{}{}", fingerprint, ending); fs::exists(file, ignored))
      files.push_back(std::move(file));
  const fs::path folder = folder_ / fingerprint;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    // Hidden files are those of other programs, such as "._1.json" of macOS.
    if (!name.starts_with('.') && (name.ends_with(".json") || name.ends_with(".json.gz")))
      files.push_back(entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    throw IoError("baseline", folder, "cannot be listed", error.value());
  for (const fs::path& file : files)
    if (!fs::is_regular_file(file, ignored))
      throw IoError("baseline", file, "is not a file, or a link to one; remove it");
  return files;
}

std::optional<nlohmann::json> MachineStore::find(const MachineRecord& machine, std::string_view name) const {
  const auto fingerprint = machine_fingerprint(machine);
  if (!fingerprint) return std::nullopt;
  try {
    const fs::path file = place(*fingerprint, name);
    if (!fs::exists(file)) return std::nullopt;
    const nlohmann::json kept = read_strict_json(file);
    if (other_machine(decoded<MachineRecord>(kept.at("machine")), machine)) return std::nullopt;
    return kept.at("content");
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void MachineStore::keep(const MachineRecord& machine, const nlohmann::json& content,
                        std::string_view name) const {
  const auto fingerprint = machine_fingerprint(machine);
  if (!fingerprint) return;
  try {
    const fs::path file = place(*fingerprint, name);
    fs::create_directories(file.parent_path());
    const nlohmann::json kept{{"machine", encode(machine_identity(machine))}, {"content", content}};
    write_atomically(file, kept.dump(1) + "\n", false);
    if (!name.empty()) trim(file.parent_path());
  } catch (const std::exception&) {
  }
}

void MachineStore::trim(const fs::path& folder) const {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(folder, gone)) {
    const fs::file_time_type written = entry.last_write_time(gone);
    if (!gone) files.emplace_back(written, entry.path());
  }
  if (files.size() <= max_files_) return;
  std::ranges::sort(files);
  for (std::size_t i = 0; i + max_files_ < files.size(); ++i) fs::remove(files[i].second, gone);
}

}  // namespace assay
