#include "harness/conductor/print/printers.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "harness/core/paths.hpp"

namespace assay {
namespace {

using namespace std::string_view_literals;

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> in_ascii{
    {{"µ", "u"}, {"×", "x"}, {"±", "+-"}, {"–", "-"}, {"…", "..."}, {"─", "-"}}};

std::string to_ascii(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto known = std::find_if(in_ascii.begin(), in_ascii.end(),
                                    [&](const auto& pair) { return text.starts_with(pair.first); });
    if (known != in_ascii.end()) {
      out += known->second;
      text.remove_prefix(known->first.size());
      continue;
    }
    const auto byte = static_cast<unsigned char>(text.front());
    if (byte < 0x80)
      out += text.front();
    else if ((byte & 0xC0) != 0x80)
      out += '?';
    text.remove_prefix(1);
  }
  return out;
}

std::string shown(std::string_view text, const ConsoleStyle& style) {
  std::string line = one_line(text, 2000);
  return style.utf8 ? line : to_ascii(line);
}

std::string_view colour_of(Tone tone) {
  switch (tone) {
    case Tone::good:
      return "\x1b[32m"sv;
    case Tone::bad:
      return "\x1b[31m"sv;
    case Tone::doubtful:
      return "\x1b[33m"sv;
    case Tone::quiet:
      return "\x1b[2m"sv;
    case Tone::plain:
      break;
  }
  return ""sv;
}

std::string painted(std::string text, std::string_view colour, const ConsoleStyle& style) {
  if (!style.colour || colour.empty() || text.empty()) return text;
  return std::string(colour) + text + "\x1b[0m";
}

std::string padded(const std::string& text, std::size_t width, Align align, std::string_view colour,
                   const ConsoleStyle& style) {
  const std::string space(width - std::min(width, display_width(text)), ' ');
  const std::string body = painted(text, colour, style);
  return align == Align::left ? body + space : space + body;
}

}  // namespace

ConsoleStyle console_style(int descriptor) {
  ConsoleStyle style;
  const std::string terminal = environment_text("TERM");
  const bool is_terminal = isatty(descriptor) == 1;
  style.colour =
      is_terminal && environment_text("NO_COLOR").empty() && terminal != "dumb" && !terminal.empty();
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (locale.empty()) locale = environment_text(name);
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  style.utf8 = locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
  winsize size{};
  if (is_terminal && ioctl(descriptor, TIOCGWINSZ, &size) == 0) style.width = size.ws_col;
  return style;
}

std::string console_note(std::string_view text, const ConsoleStyle& style) {
  const std::string line = shown(text, style);
  if (style.width < 40 || display_width(line) <= style.width) return line + "\n";
  std::string out, row;
  std::size_t at = 0;
  while (at < line.size()) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    const std::string word = line.substr(at, end - at);
    if (!row.empty() && display_width(row) + 1 + display_width(word) > style.width) {
      out += row + "\n";
      row = "  ";
    } else if (!row.empty() && row != "  ") {
      row += ' ';
    }
    row += word;
    at = end + 1;
  }
  return out + row + "\n";
}

std::string console(const Table& table, const ConsoleStyle& style) {
  std::vector<std::size_t> widths;
  for (const Column& column : table.columns) widths.push_back(display_width(shown(column.title, style)));
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], display_width(shown(row[i].text, style)));

  std::string out;
  if (!table.title.empty()) out += painted(shown(table.title, style), "\x1b[1m", style) + "\n";
  const auto add_line = [&](auto text_of, auto colour_at) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i)
      line +=
          (i == 0 ? "" : "  ") + padded(text_of(i), widths[i], table.columns[i].align, colour_at(i), style);
    while (line.ends_with(' ')) line.pop_back();
    out += line + "\n";
  };
  const auto title_of = [&](std::size_t i) { return shown(table.columns[i].title, style); };
  if (!table.columns.empty()) add_line(title_of, [](std::size_t) { return "\x1b[1m"sv; });
  for (const auto& row : table.rows)
    add_line([&](std::size_t i) { return i < row.size() ? shown(row[i].text, style) : std::string(); },
             [&](std::size_t i) { return i < row.size() ? colour_of(row[i].tone) : ""sv; });
  for (const std::string& note : table.notes) out += console_note(note, style);
  return out;
}

std::string console(const std::vector<Table>& tables, const ConsoleStyle& style) {
  std::string out;
  for (const Table& table : tables) out += (out.empty() ? "" : "\n") + console(table, style);
  return out;
}

}  // namespace assay
