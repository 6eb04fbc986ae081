#include "harness/conductor/process/rank_files.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/batch/manifest.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/file_digest.hpp"
#include "harness/core/io/sha256.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"
#include "harness/core/paths.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t part_bytes = std::size_t{4} << 20;
// A larger file takes too long to read for each fork: only its size is compared.
constexpr std::int64_t max_digested_bytes = std::int64_t{256} << 20;

constexpr const char* manifest_file = "data/manifest.json";

[[noreturn]] void fail(const std::string& what) { throw Error("[ranks] " + what); }

// For the other end to read or write what it was asked to.
constexpr std::chrono::minutes answer_patience{10};

// While files go over a link.
class WithFiles {
 public:
  explicit WithFiles(Link& link) : link_(link) { link_.allow_silence(Link::silence_with_files); }
  ~WithFiles() { link_.allow_silence(Link::usual_silence); }
  WithFiles(const WithFiles&) = delete;
  WithFiles& operator=(const WithFiles&) = delete;

 private:
  Link& link_;
};

Link::Message answer_of(Link& link) {
  return link.answer(Link::Clock::now() + answer_patience, "the connection broke while files were sent");
}

// Regular files by their place below the folder; does not follow links to folders.
std::map<std::string, fs::path> files_in(const fs::path& folder) {
  constexpr std::size_t max_files = 100'000;
  std::map<std::string, fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (const fs::recursive_directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    if (files.size() == max_files) fail(fmt::format("{} has too many files", folder.string()));
    files.emplace(entry->path().lexically_relative(folder).string(), entry->path());
  }
  if (error) fail(fmt::format("{}: {}", folder.string(), error.message()));
  return files;
}

// What the worker writes; the rest is given to it.
bool is_of_worker(const std::string& place) { return place == "log" || place.starts_with("results/"); }

// A place below a folder, and no way out of it.
bool is_within(const fs::path& place) {
  return !place.empty() && place.is_relative() &&
         std::ranges::none_of(place, [](const fs::path& part) { return part == ".." || part == "."; });
}

FileEntry entry_of(const std::string& name, const fs::path& path) {
  const std::optional<KnownFile> digest = digest_of_file(path);
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (!digest || error) fail(fmt::format("{} cannot be read", path.string()));
  return {name, static_cast<std::int64_t>(size), digest->sha256};
}

// The file in parts, the last one marked.
void send_file(Link& link, const fs::path& path, const std::string& name) {
  const auto put = [&](std::span<const std::byte> bytes, bool last) {
    if (!link.send({{"file", name}, {"last", last}}, bytes))
      throw LinkBroken("the connection broke while files were sent");
  };
  read_parts(path, [&](std::span<const std::byte> bytes) {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(part_bytes, bytes.size())))
      put(bytes.first(std::min(part_bytes, bytes.size())), false);
  });
  put({}, true);
}

// The parts of a file, up to the last one. Returns the digest of what was written. is_kept: longer than this run.
std::string take_file(Link& link, const std::string& name, const fs::path& path, bool is_kept) {
  make_folder_of(path);
  AtomicFile file(path);
  Sha256 sum;
  for (;;) {
    const Link::Message part = answer_of(link);
    if (part.json.value("file", "") != name) fail(fmt::format("got another file instead of {}", name));
    file.write(part.bytes);
    sum.add(part.bytes);
    if (part.json.value("last", false)) break;
  }
  file.commit(is_kept);
  return sum.finish();
}

// Whether there is a file with this content.
bool has_content(const fs::path& path, const FileEntry& entry) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error || static_cast<std::int64_t>(size) != entry.size) return false;
  if (entry.size > max_digested_bytes) return true;
  const std::optional<KnownFile> digest = digest_of_file(path);
  return digest && digest->sha256 == entry.sha256;
}

std::vector<FileEntry> data_of(const fs::path& folder) {
  std::vector<FileEntry> data;
  if (!fs::exists(folder / manifest_file)) return data;
  for (const auto& [name, split] : read_manifest(folder).splits)
    for (const fs::path& file : {split.inputs, split.labels}) {
      const auto within = file.lexically_relative(folder);
      const auto is_same = [&](const FileEntry& one) { return one.path == file.string(); };
      if ((within.empty() || *within.begin() == "..") && std::ranges::none_of(data, is_same))
        data.push_back(entry_of(file.string(), file));
    }
  return data;
}

}  // namespace

void SentFolder::send(Link& link) {
  const WithFiles files(link);
  FolderContents contents{.folder = folder_};
  std::map<std::string, fs::path> paths;
  const bool is_first = known_.empty();
  for (const auto& [name, path] : files_in(folder_)) {
    // Later the worker has files of its own there, and only the check gets new ones.
    if (is_of_worker(name) || (!is_first && !name.starts_with("check/"))) continue;
    FileEntry entry = entry_of(name, path);
    std::string& known = known_[name];
    if (known == entry.sha256) continue;
    known = entry.sha256;
    paths.emplace(name, path);
    contents.files.push_back(std::move(entry));
  }
  contents.data = data_of(folder_);
  for (const FileEntry& entry : contents.data) paths.emplace(entry.path, entry.path);
  if (!link.send({{"ask", "files"}, {"files", encode(contents)}}))
    throw LinkBroken("the connection broke before files were sent");
  const Link::Message wanted = answer_of(link);
  std::vector<std::string> names;
  decode(wanted.json.value("wanted", Json::array()), names, "wanted");
  for (const std::string& name : names) {
    const auto path = paths.find(name);
    if (path == paths.end()) fail(fmt::format("a rank wants {}, which it was not offered", name));
    send_file(link, path->second, name);
  }
  if (!answer_of(link).json.contains("done")) fail("a rank did not confirm its files");
}

void SentFolder::take(Link& link, std::size_t count) {
  const WithFiles files(link);
  for (std::size_t i = 0; i < count; ++i) {
    const Link::Message next = answer_of(link);
    const std::string name = next.json.value("next", "");
    if (!is_within(name)) fail(fmt::format("a rank sent a file at '{}', outside of its folder", name));
    known_[name] = take_file(link, name, folder_ / name, false);
  }
}

void ReceivedFolder::require_same(const FolderContents& contents) const {
  // A network file system may show new files late.
  constexpr std::chrono::seconds patience{10};
  constexpr std::chrono::milliseconds pause{100};
  const auto until = std::chrono::steady_clock::now() + patience;
  const auto differs = [&]() -> std::string {
    for (const FileEntry& entry : contents.files) {
      const std::optional<KnownFile> digest = digest_of_file(folder_ / entry.path);
      if (!digest || digest->sha256 != entry.sha256) return entry.path;
    }
    return "";
  };
  std::string found = differs();
  for (; !found.empty() && std::chrono::steady_clock::now() < until; found = differs())
    std::this_thread::sleep_for(pause);
  if (!found.empty())
    fail(fmt::format(
        "{} sees another content of {} than the program that measures: the file system that they share is "
        "not coherent; set TMPDIR to a folder that they do not share",
        host_, (folder_ / found).string()));
  for (const FileEntry& entry : contents.data)
    if (!has_content(entry.path, entry))
      fail(fmt::format(
          "{} does not have {}, a file of the data set, or has another one: set ASSAY_CACHE to a folder that all "
          "machines see, or TMPDIR to one that they do not share",
          host_, entry.path));
}

void ReceivedFolder::take_copy(Link& link, const FolderContents& contents) {
  const fs::path received = cache_folder() / "received";
  std::vector<std::string> wanted;
  std::map<std::string, std::pair<fs::path, std::string>> places;  // with the digest
  for (const FileEntry& entry : contents.files) {
    if (!is_within(entry.path)) fail(fmt::format("was offered a file at '{}'", entry.path));
    wanted.push_back(entry.path);
    places[entry.path] = {folder_ / entry.path, entry.sha256};
  }
  for (const FileEntry& entry : contents.data) {
    const fs::path place = received / entry.sha256;
    if (has_content(place, entry)) continue;
    wanted.push_back(entry.path);
    places[entry.path] = {place, entry.sha256};
  }
  if (!link.send({{"wanted", wanted}})) throw LinkBroken("the connection broke before files were sent");
  for (const std::string& name : wanted) {
    const auto& [place, sha256] = places.at(name);
    if (take_file(link, name, place, place.parent_path() == received) == sha256) continue;
    std::error_code ignored;
    fs::remove(place, ignored);
    fail(fmt::format("{} got another content of {} than was announced", host_, name));
  }
  if (contents.data.empty() || !fs::exists(folder_ / manifest_file)) return;
  Manifest manifest = read_manifest(folder_);
  for (auto& [name, split] : manifest.splits)
    for (fs::path* file : {&split.inputs, &split.labels})
      for (const FileEntry& entry : contents.data)
        if (*file == entry.path) *file = received / entry.sha256;
  write_manifest(folder_, manifest);
  if (manifest.kind != StorageKind::encoded) return;
  for (const auto& [name, split] : manifest.splits) {
    std::ifstream index(split.inputs);
    std::string images;
    std::getline(index, images);
    if (!fs::is_directory(images))
      fail(fmt::format("{} does not have the images of {} in {}: put them there on every machine", host_,
                       manifest.name, images));
  }
}

void ReceivedFolder::receive(Link& link, const FolderContents& contents) {
  const WithFiles files(link);
  if (folder_.empty()) {
    std::error_code error;
    is_shared_ = fs::is_directory(contents.folder, error);
    folder_ = is_shared_ ? contents.folder : scratch_ / "cell";
    if (!is_shared_) fs::create_directories(folder_ / "results");
  }
  if (is_shared_) {
    require_same(contents);
    if (!link.send({{"wanted", Json::array()}}))
      throw LinkBroken("the connection broke before files were sent");
  } else {
    take_copy(link, contents);
    for (const auto& [name, path] : files_in(folder_)) stamps_[name] = stamp_of_file(path);
  }
}

std::vector<fs::path> ReceivedFolder::fresh() {
  std::vector<fs::path> found;
  if (is_shared_) return found;
  for (const auto& [name, path] : files_in(folder_)) {
    // Not what a framework keeps in its working directory.
    if (!is_of_worker(name) && !stamps_.contains(name)) continue;
    std::string stamp = stamp_of_file(path);
    if (std::string& known = stamps_[name]; known != stamp) {
      known = std::move(stamp);
      found.emplace_back(name);
    }
  }
  return found;
}

void ReceivedFolder::send(Link& link, const fs::path& file) const {
  const WithFiles files(link);
  if (!link.send({{"next", file.string()}})) throw LinkBroken("the connection broke before files were sent");
  send_file(link, folder_ / file, file.string());
}

}  // namespace assay
