// What is known of a machine and outlives a run: its baselines, calibration, best modes and peaks.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/machine/machine_record.hpp"

namespace assay {

// The files of machines in one folder: FOLDER/FINGERPRINT.json, or FOLDER/FINGERPRINT/NAME.json if a machine has several
// (machine_fingerprint() of harness/report/environment_difference.hpp). Several processes may use it, as files are
// replaced whole.
class MachineStore {
 public:
  static constexpr std::size_t usual_files = 1000;

  // max_files: of a machine; keep() removes the oldest of more.
  explicit MachineStore(std::filesystem::path folder, std::size_t max_files = usual_files);
  // In that folder of the cache.
  static MachineStore in_cache(std::string_view folder);

  // The file of a machine; `name`: one of several.
  std::filesystem::path place(std::string_view fingerprint, std::string_view name = {}) const;
  // The files that a machine has, gzipped ones too, in no order.
  std::vector<std::filesystem::path> files_of(std::string_view fingerprint) const;

  // What was kept for the machine. Nothing if it has no fingerprint, if the file is absent or
  // damaged, or if other_machine() tells them apart.
  std::optional<nlohmann::json> find(const MachineRecord& machine, std::string_view name = {}) const;
  // Keeps an object, in place of what was kept. Does nothing for a machine without a fingerprint, and if it cannot
  // be written: it can be found out again.
  void keep(const MachineRecord& machine, const nlohmann::json& content, std::string_view name = {}) const;

 private:
  void trim(const std::filesystem::path& folder) const;

  std::filesystem::path folder_;
  std::size_t max_files_;
};

}  // namespace assay
