// Small helpers for names, text and time stamps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

template <typename Range, typename T>
bool contains(const Range& range, const T& item) {
  return std::ranges::find(range, item) != std::ranges::end(range);
}

// The minimum number of changes that turn `a` into `b`: insertions, deletions and replacements of a
// character, and swaps of two neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b);
// "; did you mean 'lenet5'?" if a name is near enough, else empty.
std::string nearest(std::string_view name, const std::vector<std::string>& known);
// The same, but "; known are lenet5, mlp" if none is near.
std::string suggestion(std::string_view name, const std::vector<std::string>& known);

// The parts of `text` between one `at` and the next; one part if `text` does not contain `at`.
std::vector<std::string> split(std::string_view text, char at);

// The text with line breaks between words, so that no line is longer than `width`, except a word that is. A minus or a
// plus never begins a line: Markdown would take it for a list.
std::string wrapped(std::string_view text, std::size_t width);

// The position of the first byte that is not UTF-8 (RFC 3629); std::string_view::npos if not found.
std::size_t find_bad_utf8(std::string_view text);

// At most `max_bytes` of a text from another program, with '?' for everything except printable ASCII.
std::string printable(std::string_view text, std::size_t max_bytes);

// Makes a text from another program safe as part of a line of a terminal, a log or a page: no control
// characters (U+0080 to U+009F included), no line feeds, no runs of blanks, nothing that a CI server takes
// for a command. At most about `limit` bytes, then "..."; characters are not cut.
std::string one_line(std::string_view text, std::size_t limit = 400);

// The text, quoted for a shell.
std::string shell_word(std::string_view text);

// "1 round", "2 rounds"
template <typename Count>
std::string plural(Count count, std::string_view one) {
  return std::to_string(count).append(" ").append(one).append(count == 1 ? "" : "s");
}

// The time now: "2026-01-31T12:00:00Z".
std::string utc_now();
// The same for the name of a file: "20260131T120000Z".
std::string utc_now_for_file();

// Seconds since 1970 of a text of utc_now(); nothing if it is not one.
std::optional<std::int64_t> unix_seconds(std::string_view utc);

// "2.13 ms", "41 s", "3 min 20 s"
std::string duration_text(double seconds);

}  // namespace assay
