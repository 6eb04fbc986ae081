// Tables for a person at a terminal, or a log file.
#pragma once

#include <string>
#include <vector>

#include "harness/conductor/print/table.hpp"

namespace assay {

struct ConsoleStyle {
  bool colour = false;
  bool utf8 = true;       // false: other characters are replaced by ASCII
  std::size_t width = 0;  // notes are wrapped to it; 0: not at all
};

// What stream `descriptor` of this process can show: colours on a terminal alone and never with $NO_COLOR or
// TERM=dumb, UTF-8 by the locale of the environment, the terminal's width.
ConsoleStyle console_style(int descriptor);

std::string console(const Table& table, const ConsoleStyle& style);
std::string console(const std::vector<Table>& tables, const ConsoleStyle& style);
// One sentence in the style: wrapped, in ASCII where it must be.
std::string console_note(std::string_view text, const ConsoleStyle& style);

}  // namespace assay
