// Digests of files that are asked for again and again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace assay {

struct KnownFile {
  std::string stamp;  // of its place, size and times
  std::string sha256;
  bool is_machine_code = false;  // ELF
};

// A file is read once for each of its stamps; later calls only look at it. nullopt if it is not a regular file that can be
// read. Any thread.
std::optional<KnownFile> digest_of_file(const std::filesystem::path& path);
// Without reading it; empty if it is not a regular file.
std::string stamp_of_file(const std::filesystem::path& path);

}  // namespace assay
