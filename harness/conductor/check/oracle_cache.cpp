#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "harness/conductor/check/oracle.hpp"
#include "harness/conductor/check/tensor_file.hpp"
#include "harness/core/io/sha256.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

constexpr const char* answers_name = "oracle.safetensors";
constexpr const char* digest_name = "sha256";

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::string key_of(const fs::path& oracle_folder, const OracleWorker& worker) {
  std::ostringstream text;
  text << "check " << check_version << '\n';
  // A worker found on the PATH has no file to digest: its name stands for it.
  text << "worker "
       << (fs::is_regular_file(worker.executable) ? sha256_of_file(worker.executable)
                                                  : worker.executable.string())
       << '\n';
  for (const char* file : {"request.json", "graph.json", "check/parameters.safetensors", "check/inputs.npy",
                           "check/labels.npy", "check/schedule.npy"}) {
    text << file << ' ' << sha256_of_file(oracle_folder / file) << '\n';
  }
  const fs::path masks = oracle_folder / "check/masks.safetensors";
  if (fs::exists(masks)) text << "masks " << sha256_of_file(masks) << '\n';
  return sha256(text.str());
}

// Whether the entry holds what was put there.
bool intact(const fs::path& entry) {
  std::ifstream file(entry / digest_name);
  std::string digest;
  if (!(file >> digest) || !fs::is_regular_file(entry / answers_name)) return false;
  return sha256_of_file(entry / answers_name) == digest;
}

// Into a folder of its own that is then renamed, so that nobody sees half of it.
void keep(const fs::path& answers, const fs::path& entry) {
  const fs::path temporary = entry.string() + fmt::format(".{}", ::getpid());
  fs::remove_all(temporary);
  fs::create_directories(temporary);
  fs::copy_file(answers, temporary / answers_name);
  std::ofstream file(temporary / digest_name);
  file << sha256_of_file(answers) << '\n';
  file.close();
  std::error_code failure;
  if (file) {
    fs::remove_all(entry, failure);
    fs::rename(temporary, entry, failure);  // another process may have been faster; its entry is as good
  }
  fs::remove_all(temporary, failure);
}

}  // namespace

fs::path default_oracle_cache() {
  if (const char* cache = environment("ASSAY_CACHE")) return fs::path(cache) / "oracle";
  if (const char* cache = environment("XDG_CACHE_HOME")) return fs::path(cache) / "assay" / "oracle";
  if (const char* home = environment("HOME")) return fs::path(home) / ".cache" / "assay" / "oracle";
  return {};
}

OracleCache::OracleCache(fs::path folder) : folder_(std::move(folder)) {}

fs::path OracleCache::answers(const fs::path& cell_folder, const Program& program, const OracleWorker& worker,
                              const fs::path& scratch, const Run& run) const {
  fs::remove_all(scratch);
  write_oracle_cell(scratch, cell_folder, program, worker);
  const fs::path entry = folder_.empty() ? fs::path() : folder_ / key_of(scratch, worker);
  const fs::path answers = scratch / "results" / answers_name;
  try {
    if (!entry.empty() && intact(entry)) {
      // A copy, because another process may replace the entry while it is read.
      fs::create_directories(answers.parent_path());
      fs::copy_file(entry / answers_name, answers);
      return answers;
    }
  } catch (const std::exception&) {
    fs::remove(answers);  // unreadable is as good as absent
  }

  run(scratch);
  TensorFile::read(answers);  // throws when there is nothing of use
  try {
    if (!entry.empty()) keep(answers, entry);
  } catch (const std::exception&) {
    // A cache that cannot be written costs time, not the run.
  }
  return answers;
}

}  // namespace assay
