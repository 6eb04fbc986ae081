#include "backends/onednn/primitives/ops.hpp"

#include <algorithm>

namespace assay::onednn::primitives {
namespace {

// Ops for which oneDNN has no primitive: the loops of the other modes. In softmax_cross_entropy and its
// gradient, only the choice of a row's label is a loop; see loss.cpp. In attention and its gradient, only a
// pass over the rows of scores is; see attention.cpp.
constexpr std::array outside{"advance",
                             "all_reduce_start",
                             "all_reduce_wait",
                             "attention",
                             "attention_gradient",
                             "cache_mask",
                             "cache_write",
                             "clip",
                             "dense_rows",
                             "dropout_mask",
                             "embedding",
                             "embedding_gradient",
                             "embedding_row_gradient",
                             "from_list",
                             "global_norm",
                             "lazy_adam",
                             "mean_pool",
                             "mean_pool_gradient",
                             "padding_mask",
                             "rotary",
                             "slice_gradient",
                             "softmax_cross_entropy",
                             "softmax_cross_entropy_gradient",
                             "tokens_at"};

}  // namespace

const OpEntry* find_entry(std::string_view op) {
  for (const auto list : {attention_ops(), convolution_ops(), pool_ops(), pointwise_ops(), norm_ops(),
                          reduce_ops(), row_norm_ops(), loss_ops(), lstm_ops(), optimizer_ops()}) {
    for (const OpEntry& entry : list) {
      if (entry.op == op) return &entry;
    }
  }
  const OpEntry* entry = onednn::find_entry(op);
  return entry != nullptr && (entry->primitive || is_outside_of_library(op)) ? entry : nullptr;
}

bool is_outside_of_library(std::string_view op) { return std::ranges::find(outside, op) != outside.end(); }

}  // namespace assay::onednn::primitives
