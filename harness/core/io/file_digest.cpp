#include "harness/core/io/file_digest.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/io/sha256.hpp"

namespace assay {
namespace {

bool is_machine_code(std::span<const std::byte> bytes) {
  constexpr std::string_view elf =
      "\x7f"
      "ELF";
  return bytes.size() >= elf.size() && std::equal(elf.begin(), elf.end(), bytes.begin(),
                                                  [](char a, std::byte b) { return std::byte(a) == b; });
}

}  // namespace

std::string stamp_of_file(const std::filesystem::path& path) {
  struct stat now{};
  if (::stat(path.c_str(), &now) != 0 || !S_ISREG(now.st_mode)) return "";
  return fmt::format("{} {} {} {}.{} {}.{}", now.st_dev, now.st_ino, now.st_size, now.st_mtim.tv_sec,
                     now.st_mtim.tv_nsec, now.st_ctim.tv_sec, now.st_ctim.tv_nsec);
}

std::optional<KnownFile> digest_of_file(const std::filesystem::path& path) {
  static std::mutex mutex;
  static std::map<std::string, KnownFile> known;
  const std::string stamp = stamp_of_file(path);
  if (stamp.empty()) return std::nullopt;
  const std::lock_guard lock(mutex);
  KnownFile& file = known[path.string()];
  if (file.stamp == stamp) return file;
  try {
    const MappedFile content(path);
    file = {stamp, sha256(content.bytes()), is_machine_code(content.bytes())};
    return file;
  } catch (const IoError&) {
    return std::nullopt;
  }
}

}  // namespace assay
