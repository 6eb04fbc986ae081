#include "harness/conductor/data/provenance.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/data/format.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/sha256.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct stat look_at(const fs::path& file) {
  struct stat found = {};
  if (::stat(file.c_str(), &found) != 0) throw IoError("dataset", file, "cannot be examined", errno);
  return found;
}

// A text that changes if the file changes.
std::string stamp_of(const struct stat& file) {
  return fmt::format("{} {} {}.{} {}.{}", file.st_size, file.st_ino, file.st_mtim.tv_sec,
                     file.st_mtim.tv_nsec, file.st_ctim.tv_sec, file.st_ctim.tv_nsec);
}

// {"<path>": ["<stamp>", "<sha256>"], ...}: one file for each folder. It may be damaged or deleted at any
// time.
class KnownDigests {
 public:
  KnownDigests(const fs::path& cache, const fs::path& folder)
      : path_(cache / "digests" / (sha256(fs::absolute(folder).string()).substr(0, 16) + ".json")) {
    std::error_code ignored;
    if (!fs::is_regular_file(path_, ignored)) return;
    try {
      known_ = Json::parse(read_text(path_), nullptr, false);
    } catch (const IoError&) {
    }
    if (!known_.is_object()) known_ = Json::object();
  }

  std::optional<std::string> find(const std::string& name, const std::string& stamp) const {
    const auto found = known_.find(name);
    if (found == known_.end() || !found->is_array() || found->size() != 2 || (*found)[0] != stamp ||
        !(*found)[1].is_string())
      return std::nullopt;
    return (*found)[1].get<std::string>();
  }
  void add(const std::string& name, const std::string& stamp, const std::string& digest) {
    known_[name] = {stamp, digest};
    changed_ = true;
  }
  // A cache that cannot be written only costs time.
  void save() const {
    if (!changed_) return;
    try {
      std::error_code ignored;
      fs::create_directories(path_.parent_path(), ignored);
      write_atomically(path_, known_.dump(-1, ' ', false, Json::error_handler_t::replace), false);
    } catch (const IoError&) {
    }
  }

 private:
  fs::path path_;
  Json known_ = Json::object();
  bool changed_ = false;
};

}  // namespace

Provenance provenance_of(const Dataset& dataset, const DatasetFiles& files, const fs::path& cache,
                         bool compute) {
  Provenance found;
  found.folder = files.folder;
  found.file_count = static_cast<std::int64_t>(files.files.size());
  const bool contents = dataset.format->sums_contents();
  found.checksum_of = contents ? "contents" : "names and lengths";
  const bool named = files.files.size() <= max_named_files;
  KnownDigests known(cache, files.folder);
  Sha256 all;
  bool whole = true;
  for (const fs::path& file : files.files) {
    const std::string name = file.lexically_relative(files.folder).string();
    const struct stat status = look_at(file);
    found.bytes += status.st_size;
    if (!contents) {
      all.add(fmt::format("{} {}\n", name, status.st_size));
      continue;
    }
    const std::string stamp = stamp_of(status);
    std::optional<std::string> digest = known.find(name, stamp);
    if (!digest && compute) {
      digest = sha256_of_file(file);
      known.add(name, stamp, *digest);
    }
    if (!digest) {
      whole = false;
      continue;
    }
    all.add(fmt::format("{}  {}\n", *digest, name));
    if (named) found.files.push_back({name, status.st_size, *digest});
  }
  if (whole) found.checksum = all.finish();
  known.save();
  return found;
}

std::string stamp_of(const DatasetFiles& files) {
  Sha256 all;
  all.add(fs::absolute(files.folder).lexically_normal().string() + '\n');
  for (const fs::path& file : files.files)
    all.add(fmt::format("{} {}\n", file.lexically_relative(files.folder).string(), stamp_of(look_at(file))));
  return all.finish();
}

}  // namespace assay
