#include "harness/graph/op_reference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/text.hpp"

namespace assay {
namespace {

constexpr std::size_t line_width = 100;

// Contracts are plain text: a * is not Markdown.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '*') safe += '\\';
    safe += c;
  }
  return safe;
}

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string signature(const Op& op) {
  std::vector<std::string> operands;
  for (const Operand& operand : op.operands()) {
    operands.push_back(operand.optional ? "[" + operand.name + "]" : operand.name);
  }
  std::vector<std::string> results;
  for (const Result& result : op.results()) {
    results.push_back(result.optional ? "[" + result.name + "]" : result.name);
  }
  const char* more = op.repeats() > 0 ? ", ..." : "";
  return fmt::format("{}({}{}) -> {}{}", op.name(), joined(operands), more, joined(results),
                     op.results_repeat() ? more : "");
}

std::string reference(const Op& op) {
  std::string text = fmt::format("## {}\n\n    {}\n\n", op.name(), signature(op));
  text += wrapped(escaped(op.contract()), line_width) + "\n";
  std::vector<std::string> notes;
  if (!op.attributes().empty()) notes.push_back("Attributes: " + joined(op.attributes()) + ".");
  for (const Result& result : op.results()) {
    if (result.saved)
      notes.push_back(fmt::format("Saved: {}{}.", result.name, result.opaque ? " (opaque)" : ""));
  }
  for (const InPlace& pair : op.in_place()) {
    notes.push_back(fmt::format("In place: {} over {}.",
                                op.results()[static_cast<std::size_t>(pair.output)].name,
                                op.operands()[static_cast<std::size_t>(pair.input)].name));
  }
  if (op.view()) notes.push_back("A view: no data need to move.");
  if (!notes.empty())
    text += "\n" + wrapped(escaped(fmt::format("{}", fmt::join(notes, " "))), line_width) + "\n";
  return text;
}

std::string operator_reference() {
  std::string text;
  for (const Op* op : all_ops()) text += (text.empty() ? "" : "\n") + reference(*op);
  return text;
}

}  // namespace assay
