#include "harness/conductor/backends/backends.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "harness/core/text.hpp"

namespace assay {

bool in_networks(const Op& op) {
  const std::vector<Operand> operands = op.operands();
  const bool optimizer = !operands.empty() && operands.front().name == "schedule";
  static constexpr std::array<std::string_view, 9> made_by_passes{
      "all_reduce_start", "all_reduce_wait",   "cast", "clip", "constant", "dense_rows", "dropout_mask",
      "global_norm",      "running_statistics"};
  const bool pass = contains(made_by_passes, op.name());
  return !optimizer && !pass && !op.name().ends_with("gradient");
}

std::string support(const BackendDescription& backend, const Op& op) {
  if (backend.ops.empty()) return "?";
  if (contains(backend.ops, op.name())) return "yes";
  return backend.kind == BackendKind::framework && !in_networks(op) ? "own" : "no";
}

std::string support_page(const std::vector<BackendDescription>& backends) {
  std::string head = "| op |", rule = "|---|", body;
  for (const BackendDescription& backend : backends) {
    if (backend.ops.empty()) continue;
    head += fmt::format(" `{}` |", backend.name);
    rule += "---|";
  }
  for (const Op* op : all_ops()) {
    if (!in_networks(*op)) continue;
    body += fmt::format("| `{}` |", op->name());
    for (const BackendDescription& backend : backends) {
      if (!backend.ops.empty()) body += fmt::format(" {} |", support(backend, *op));
    }
    body += '\n';
  }
  return head + '\n' + rule + '\n' + body;
}

}  // namespace assay
