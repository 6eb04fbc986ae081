#include "harness/conductor/data/provenance.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/data/in_threads.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t noted_bytes = std::int64_t{4} << 30;  // take longer than some seconds to read

struct stat look_at(const fs::path& file) {
  struct stat found = {};
  if (::stat(file.c_str(), &found) != 0) throw IoError("dataset", file, "cannot be examined", errno);
  return found;
}

// A text that changes if the file changes.
std::string stamp_of(const struct stat& file) {
  return fmt::format("{} {} {} {}.{} {}.{}", file.st_dev, file.st_ino, file.st_size, file.st_mtim.tv_sec,
                     file.st_mtim.tv_nsec, file.st_ctim.tv_sec, file.st_ctim.tv_nsec);
}

// Whether a later change would surely have another time, even where a file system only keeps seconds.
bool is_settled(const struct stat& file) { return file.st_ctim.tv_sec + 2 < std::time(nullptr); }

// fs::path takes several microseconds for that, and ImageNet has a million files.
std::string name_in(const fs::path& folder, const fs::path& file) {
  const std::string &start = folder.native(), &whole = file.native();
  const bool inside =
      whole.size() > start.size() + 1 && whole.starts_with(start) && whole[start.size()] == '/';
  return inside ? whole.substr(start.size() + 1) : file.lexically_relative(folder).string();
}

// {"<path>": ["<stamp>", "<sha256>"], ...}: one file for each folder; the path "*" is all of many files. It may be damaged
// or deleted at any time.
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

  // Empty if it is not known.
  std::string find(const std::string& name, const std::string& stamp) const {
    const auto found = known_.find(name);
    if (found == known_.end() || !found->is_array() || found->size() != 2 || (*found)[0] != stamp ||
        !(*found)[1].is_string())
      return "";
    return (*found)[1].get<std::string>();
  }
  void add(const std::string& name, const std::string& stamp, const std::string& digest) {
    Json entry = {stamp, digest};
    Json& known = known_[name];
    changed_ = changed_ || known != entry;
    known = std::move(entry);
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

// Reads the files whose digest is empty.
void sum_unknown(const std::vector<fs::path>& files, std::vector<std::string>& digests) {
  in_threads(files.size(), [&](std::size_t i) {
    if (digests[i].empty()) digests[i] = sha256_of_file(files[i]);
  });
}

// Whether that many bytes may be read.
bool allows(const Summing& summing, const fs::path& folder, std::int64_t bytes) {
  if (bytes > summing.max_bytes) return false;
  if (bytes > noted_bytes && summing.note)
    summing.note(fmt::format("reading {:.0f} GB in {} once, for their checksum",
                             static_cast<double>(bytes) / 1e9, folder.string()));
  return true;
}

// Does not depend on whether the files are in a folder of the set or were named themselves.
std::string checksum_of(const DatasetFiles& files, const std::vector<std::string>& digests) {
  Sha256 all;
  for (std::size_t i = 0; i < digests.size(); ++i)
    all.add(fmt::format("{}  {}\n", digests[i],
                        files.names.empty() ? name_in(files.folder, files.files[i]) : files.names[i]));
  return all.finish();
}

void sum_few(Provenance& found, const DatasetFiles& files, KnownDigests& known, const Summing& summing) {
  std::vector<struct stat> seen;
  std::vector<std::string> digests;
  std::int64_t unknown = 0;
  for (const fs::path& file : files.files) {
    seen.push_back(look_at(file));
    digests.push_back(known.find(name_in(files.folder, file), stamp_of(seen.back())));
    if (digests.back().empty()) unknown += seen.back().st_size;
  }
  if (!allows(summing, files.folder, unknown)) return;
  sum_unknown(files.files, digests);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const std::string name = name_in(files.folder, files.files[i]);
    if (is_settled(seen[i])) known.add(name, stamp_of(seen[i]), digests[i]);
    found.files.push_back({name, seen[i].st_size, digests[i]});
  }
  found.checksum = checksum_of(files, digests);
}

void sum_many(Provenance& found, const DatasetFiles& files, const FileStamps& stamps, KnownDigests& known,
              const Summing& summing) {
  const std::string all_files = "*";
  std::string checksum = known.find(all_files, stamps.digest());
  if (checksum.empty()) {
    if (!allows(summing, files.folder, stamps.bytes())) return;
    std::vector<std::string> digests(files.files.size());
    sum_unknown(files.files, digests);
    checksum = checksum_of(files, digests);
    if (stamps.settled()) known.add(all_files, stamps.digest(), checksum);
  }
  found.checksum = checksum;
}

}  // namespace

FileStamps::FileStamps(const DatasetFiles& files) : folder_(fs::absolute(files.folder).lexically_normal()) {
  Sha256 all;
  all.add(folder_.string() + '\n');
  for (const fs::path& file : files.files) {
    if (find_bad_utf8(file.native()) != std::string::npos)
      throw IoError("dataset", file, "has a name that is not UTF-8, so a report cannot keep it; rename it");
    const struct stat seen = look_at(file);
    const std::string stamp = stamp_of(seen);
    names_.push_back(name_in(files.folder, file));
    stamps_.push_back(std::hash<std::string>()(stamp));
    bytes_ += seen.st_size;
    settled_ = settled_ && is_settled(seen);
    all.add(fmt::format("{} {}\n", names_.back(), stamp));
  }
  digest_ = all.finish();
}

std::string FileStamps::change() const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const fs::path file = folder_ / names_[i];
    struct stat now = {};
    if (::stat(file.c_str(), &now) != 0)
      return fmt::format("{} cannot be examined any more ({})", file.string(), std::strerror(errno));
    if (std::hash<std::string>()(stamp_of(now)) != stamps_[i])
      return fmt::format("{} was changed or replaced", file.string());
  }
  return "";
}

Provenance provenance_of(const DatasetFiles& files, const FileStamps& stamps, const fs::path& cache,
                         const Summing& summing) {
  Provenance found;
  found.folder = files.folder;
  found.file_count = static_cast<std::int64_t>(files.files.size());
  found.bytes = stamps.bytes();
  found.checksum_of = "contents";
  KnownDigests known(cache, files.folder);
  if (files.files.size() <= max_named_files)
    sum_few(found, files, known, summing);
  else
    sum_many(found, files, stamps, known, summing);
  known.save();
  return found;
}

}  // namespace assay
