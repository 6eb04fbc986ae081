#include "harness/graph/op_reference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace assay {
namespace {

constexpr std::string_view introduction[] = {
    "The contract of each operator of a graph, which every backend must meet. The page is generated from "
    "the contracts in `harness/graph/ops`; `ASSAY_WRITE_DOCS=1 build/dev/graph_test "
    "--gtest_filter='OperatorReference.*'` writes it again.",
    "Shapes are row-major with the outermost dimension first; images are (N, C, H, W). Operands and results "
    "in brackets may be absent. *Saved* results exist only for the gradient; only the backend knows the "
    "form of an *opaque* result. Ops whose names end in `gradient`, and the optimizers, are never in "
    "`graph.json`: autodiff and the training step add them for backends that do not differentiate "
    "themselves."};
constexpr std::size_t line_width = 118;

std::string wrapped(std::string_view text, std::size_t width) {
  std::string lines;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    // A minus at the start of a line would begin a list.
    const bool sign = word == "-" || word == "+";
    if (column > 0 && !sign && column + 1 + word.size() > width) {
      lines += '\n';
      column = 0;
    }
    if (column > 0) lines += ' ';
    lines += word;
    column += word.size() + (column > 0 ? 1 : 0);
    begin = end + 1;
  }
  return lines;
}

// Contracts are plain text: a product must not become emphasis.
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
  std::string text = "# Operators\n";
  for (const std::string_view paragraph : introduction) text += "\n" + wrapped(paragraph, line_width) + "\n";
  for (const Op* op : all_ops()) text += "\n" + reference(*op);
  return text;
}

}  // namespace assay
