// Text of a worker, a config or a report on its way to a terminal, a log or a shell.
#include <string>

#include "harness/conductor/print/printers.hpp"
#include "harness/core/text.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_lines {
namespace {

constexpr std::size_t limit = 40;

// Neither what a terminal obeys, U+0080 to U+009F included, nor the end of a line.
bool is_plain(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < ' ' || byte == 0x7f) return false;
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0 &&
        static_cast<unsigned char>(text[i + 1]) >= 0x80)
      return false;
  }
  return true;
}

// The word as a POSIX shell reads it.
std::string unquoted(std::string_view word) {
  std::string text;
  bool quoted = false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] == '\'') {
      quoted = !quoted;
    } else if (!quoted && word[i] == '\\') {
      require(i + 1 < word.size(), "a backslash has something after it");
      text += word[++i];
    } else {
      require(quoted || std::string_view(" \t\n$`\"&|;<>()*?[]#~!{}").find(word[i]) == std::string_view::npos,
              "what a shell obeys is quoted");
      text += word[i];
    }
  }
  require(!quoted, "a quotation ends");
  return text;
}

const Registration here("lines", [](Input input) {
  const std::string_view text = text_of(input);
  const std::string line = one_line(text, limit);
  require(is_plain(line), "a line has no control characters");
  require(!line.starts_with("::") && line.find("##[") == std::string::npos,
          "a CI server obeys no line of it");
  if (find_bad_utf8(text) == std::string_view::npos) {
    constexpr std::size_t longest = limit + 8;  // the rest of a character, a space and "..."
    require(line.size() <= longest, "a line is short");
    require(find_bad_utf8(line) == std::string_view::npos, "a line of UTF-8 is UTF-8");
  }
  require(unquoted(shell_word(text)) == text, "a shell reads what was meant");
  for (const char c : printable(text, limit)) require(c >= ' ' && c <= '~', "printable text is ASCII");
  console_note(text, {.colour = false, .utf8 = false, .width = 30});
  csv_field(text);
});

}  // namespace
}  // namespace assay::fuzz::of_lines
