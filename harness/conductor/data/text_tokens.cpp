#include "harness/conductor/data/text_tokens.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '\'' || static_cast<unsigned char>(c) > 127;
}

}  // namespace

void write_tokens(std::span<const std::int32_t> ranks, std::span<std::int32_t> row) {
  const std::size_t kept = std::min(ranks.size(), row.size());
  auto out = std::fill_n(row.begin(), row.size() - kept, token_padding);
  // The start token, if it fits in addition to all of the text.
  if (kept < row.size()) *(out - 1) = token_start;
  for (const std::int32_t rank : ranks.last(kept))
    *out++ = rank < token_vocabulary - token_first_word ? rank + token_first_word : token_unknown;
}

std::vector<std::string_view> split_words(std::string& text) {
  constexpr std::string_view line_break = "<br />";
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (std::size_t at = 0; (at = text.find(line_break, at)) != std::string::npos;)
    std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), line_break.size(), ' ');
  std::vector<std::string_view> words;
  for (auto begin = text.cbegin(); begin != text.cend();) {
    begin = std::find_if(begin, text.cend(), in_word);
    const auto end = std::find_if_not(begin, text.cend(), in_word);
    if (begin != end) words.emplace_back(begin, end);
    begin = end;
  }
  return words;
}

std::string read_utf8(std::string_view format, const std::filesystem::path& file, std::uint64_t limit) {
  std::string text = read_text(file, limit);
  if (const std::string_view encoding = wide_encoding(text); !encoding.empty())
    throw IoError(format, file, fmt::format("is a text in {}; save it as UTF-8", encoding));
  if (text.starts_with(utf8_mark)) text.erase(0, utf8_mark.size());
  const std::string kind = kind_of_content(std::as_bytes(std::span(text)));
  if (const std::size_t bad = find_bad_utf8(text); bad != std::string::npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
    const auto byte = static_cast<unsigned char>(text[bad]);
    throw IoError(
        format, file,
        kind.empty() ? fmt::format("line {} is not UTF-8 (byte 0x{:02x}); save the text as UTF-8", line, byte)
                     : "is not a text: " + kind);
  }
  if (const std::size_t at = text.find('\0'); at != std::string::npos)
    throw IoError(format, file,
                  fmt::format("is not a text, or one in UTF-32: byte {} is 0; save a text as UTF-8", at));
  // JSON may be a text.
  if (kind.find("Git LFS") != kind.npos || kind.find("web page") != kind.npos)
    throw IoError(format, file, "is not a text: " + kind);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    text[kept++] = text[i] == '\r' ? '\n' : text[i];
  }
  text.resize(kept);
  return text;
}

}  // namespace assay
