#include <fmt/format.h>

#include <array>

#include "harness/core/text.hpp"
#include "harness/graph/ops/registry.hpp"

namespace assay {

std::span<const Op* const> all_ops() {
#define ASSAY_ADDRESS(name) &name##_op(),
  static const std::array others{ASSAY_OPS(ASSAY_ADDRESS)};
#undef ASSAY_ADDRESS
  static const auto ops = [] {
    std::vector<const Op*> all;
    for (const std::span<const Op* const> list :
         {unary_ops(), binary_ops(), std::span(others.begin(), others.end())})
      all.insert(all.end(), list.begin(), list.end());
    return all;
  }();
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
