// Small text files in which Linux describes the system.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace assay {

// The text without white space around it; nothing if the file cannot be read or is empty.
std::optional<std::string> file_text(const std::filesystem::path& file);
std::optional<std::int64_t> file_integer(const std::filesystem::path& file);
// The text after "<key>:" or "<key>=" in the first line that starts so, without quotes.
std::optional<std::string> field_of(std::string_view text, std::string_view key);
// "0-3,8" -> {0, 1, 2, 3, 8}; invalid parts are left out.
std::set<int> cpu_list(std::string_view text);
// "32K" -> 32768.
std::optional<std::int64_t> size_of(std::string_view text);
// Bytes that the loopback interface of this process's network namespace has sent, for all processes; nothing if the
// system does not count them. Reads `root`/proc/net/dev.
std::optional<std::int64_t> loopback_bytes(const std::filesystem::path& root = "/");

}  // namespace assay
