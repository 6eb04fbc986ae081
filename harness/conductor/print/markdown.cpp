#include "harness/conductor/print/printers.hpp"

#include <string_view>

namespace assay {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : one_line(text, 2000)) {
    if (c == '<' || c == '>') {  // for viewers that show HTML and ignore Markdown's escapes
      out += c == '<' ? "&lt;" : "&gt;";
      continue;
    }
    if (std::string_view("\\`*_|[]#~").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string markdown(const Table& table) {
  std::string out;
  if (!table.title.empty()) out += "### " + escaped(table.title) + "\n\n";
  if (!table.columns.empty()) {
    std::string titles = "|", rule = "|";
    for (const Column& column : table.columns) {
      titles += " " + escaped(column.title) + " |";
      rule += column.align == Align::right ? " ---: |" : " --- |";
    }
    out += titles + "\n" + rule + "\n";
  }
  for (const auto& row : table.rows) {
    out += "|";
    for (const Entry& entry : row) out += " " + escaped(entry.text) + " |";
    out += "\n";
  }
  for (const std::string& note : table.notes) out += "\n" + escaped(note) + "\n";
  return out;
}

std::string markdown(const std::vector<Table>& tables) {
  std::string out;
  for (const Table& table : tables) out += (out.empty() ? "" : "\n") + markdown(table);
  return out;
}

}  // namespace assay
