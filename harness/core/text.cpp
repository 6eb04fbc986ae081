#include "harness/core/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>

namespace assay {
namespace {

std::string formatted_now(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: the current one and the two above it.
  std::vector<std::size_t> row(b.size() + 1), above, before(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  above = row;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  // Names come from files, too: do not look for neighbours of a long name.
  constexpr std::size_t max_length = 64;
  if (name.size() > max_length || known.empty()) return "";
  const auto best = std::ranges::min_element(
      known, {}, [&](const std::string& candidate) { return edit_distance(name, candidate); });
  if (edit_distance(name, *best) > std::max<std::size_t>(1, name.size() / 3)) return "";
  return fmt::format("; did you mean '{}'?", *best);
}

std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  const std::string hint = nearest(name, known);
  return hint.empty() ? fmt::format("; known are {}", fmt::join(known, ", ")) : hint;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string wrapped(std::string_view text, std::size_t width) {
  std::string lines;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const bool sign = word == "-" || word == "+";
    if (column > 0 && !sign && column + 1 + word.size() > width) {
      lines += '\n';
      column = 0;
    } else if (column > 0) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines;
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string clean(text.substr(0, max_bytes));
  std::ranges::replace_if(clean, [](char c) { return c < ' ' || c > '~'; }, '?');
  return clean;
}

std::string one_line(std::string_view text, std::size_t limit) {
  std::string out;
  bool space = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F, which terminals execute like ESC, are C2 80 to C2 9F.
    const bool second = byte == 0xC2 && i + 1 < text.size() &&
                        static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                        static_cast<unsigned char>(text[i + 1]) <= 0x9F;
    if (byte <= ' ' || byte == 0x7f || second) {
      i += second;
      space = !out.empty();
      continue;
    }
    if (out.size() >= limit && (byte & 0xC0) != 0x80) return out + "...";
    if (space) out += ' ';
    space = false;
    // A CI server takes two things for a command: a line that begins with ::, and ##[ anywhere.
    if ((text[i] == ':' && out == ":") || (text[i] == '[' && out.ends_with("##"))) out += ' ';
    out += text[i];
  }
  return out;
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view harmless =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+@%";
  if (!text.empty() && text.find_first_not_of(harmless) == text.npos) return std::string(text);
  std::string word = "'";
  for (const char c : text) c == '\'' ? word += "'\\''" : word += c;
  return word + "'";
}

std::string utc_now() { return formatted_now("%Y-%m-%dT%H:%M:%SZ"); }
std::string utc_now_for_file() { return formatted_now("%Y%m%dT%H%M%SZ"); }

std::optional<std::int64_t> unix_seconds(std::string_view utc) {
  std::tm fields{};
  const std::string text(utc);
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &fields);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return static_cast<std::int64_t>(::timegm(&fields));
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  // Three digits of 0.9996 are 1000, which would be printed as 1e+03.
  if (seconds < 0.9995e-3) return fmt::format("{:.3g} us", 1e6 * seconds);
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds < 99.5) return fmt::format("{:.3g} s", seconds);
  const long whole = std::lround(seconds);
  if (whole < 5400) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

namespace {

// Number of bytes of the character at the beginning of `text`; 0 if it is not valid.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                             : (first & 0xf0) == 0xe0         ? 3
                             : first >= 0xf0 && first <= 0xf4 ? 4
                                                              : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const unsigned second = byte(1);
  const bool too_long = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second > 0x9f;
  const bool too_high = first == 0xf4 && second > 0x8f;
  return too_long || surrogate || too_high ? 0 : length;
}

}  // namespace

std::size_t find_bad_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

}  // namespace assay
