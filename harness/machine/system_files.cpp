#include "harness/machine/system_files.hpp"

#include <charconv>
#include <fstream>
#include <sstream>

namespace assay {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::optional<std::int64_t> integer(std::string_view text, std::string_view* rest = nullptr) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  if (rest) *rest = text.substr(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

std::optional<std::string> file_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) return std::nullopt;
  const std::string all = text.str();
  const std::string_view body = trimmed(all);
  return body.empty() ? std::nullopt : std::optional(std::string(body));
}

std::optional<std::int64_t> file_integer(const std::filesystem::path& file) {
  const auto text = file_text(file);
  return text ? integer(*text) : std::nullopt;
}

std::optional<std::string> field_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto separator = line.find_first_of(":=");
    if (separator == line.npos || trimmed(line.substr(0, separator)) != key) continue;
    std::string_view value = trimmed(line.substr(separator + 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
      value = value.substr(1, value.size() - 2);
    return std::string(value);
  }
  return std::nullopt;
}

std::set<int> cpu_list(std::string_view text) {
  constexpr std::int64_t max_cpus = 1 << 16;
  std::set<int> cpus;
  while (!text.empty()) {
    const auto end = std::min(text.find(','), text.size());
    std::string_view part = trimmed(text.substr(0, end)), rest;
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto first = integer(part, &rest);
    if (!first) continue;
    const auto last = rest.starts_with('-') ? integer(rest.substr(1)) : first;
    if (last && *first >= 0 && *last < max_cpus)
      for (std::int64_t cpu = *first; cpu <= *last; ++cpu) cpus.insert(static_cast<int>(cpu));
  }
  return cpus;
}

std::optional<std::int64_t> size_of(std::string_view text) {
  std::string_view rest;
  const auto value = integer(trimmed(text), &rest);
  if (!value) return std::nullopt;
  if (rest.starts_with('K')) return *value << 10;
  if (rest.starts_with('M')) return *value << 20;
  return value;
}

std::optional<std::int64_t> loopback_bytes(const std::filesystem::path& root) {
  const auto text = file_text(root / "proc/net/dev");
  const auto counts = text ? field_of(*text, "lo") : std::nullopt;
  if (!counts) return std::nullopt;
  constexpr int received = 8;  // counts of what was received come first
  std::istringstream columns(*counts);
  std::int64_t count = 0;
  for (int i = 0; i <= received; ++i)
    if (!(columns >> count)) return std::nullopt;
  return count;
}

}  // namespace assay
