#include <fmt/format.h>

#include <array>

#include "harness/core/text.hpp"
#include "harness/graph/ops/registry.hpp"

namespace assay {

std::span<const Op* const> all_ops() {
#define ASSAY_ADDRESS(name) &name##_op(),
  static const std::array ops{ASSAY_OPS(ASSAY_ADDRESS)};
#undef ASSAY_ADDRESS
  return ops;
}

const Op& find_op(std::string_view name) {
  for (const Op* op : all_ops()) {
    if (op->name() == name) return *op;
  }
  std::vector<std::string> known;
  for (const Op* op : all_ops()) known.emplace_back(op->name());
  throw GraphError(fmt::format("unknown op '{}'{}", name.substr(0, 40), suggestion(name, known)));
}

}  // namespace assay
