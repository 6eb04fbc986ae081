// The ops that mode primitives lowers in its own way: each to oneDNN primitives, in the formats that these
// choose (format_tag::any).
#pragma once

#include <span>

#include "backends/onednn/lowering.hpp"

namespace assay::onednn::primitives {

std::span<const OpEntry> attention_ops();
std::span<const OpEntry> convolution_ops();
std::span<const OpEntry> pool_ops();
std::span<const OpEntry> pointwise_ops();
std::span<const OpEntry> norm_ops();
std::span<const OpEntry> reduce_ops();
std::span<const OpEntry> row_norm_ops();
std::span<const OpEntry> loss_ops();
std::span<const OpEntry> lstm_ops();
std::span<const OpEntry> optimizer_ops();

// Null if this mode does not have the op.
const OpEntry* find_entry(std::string_view op);
// Whether our own loop computes the op, or a part of it, because oneDNN has no primitive for it.
bool is_outside_of_library(std::string_view op);

}  // namespace assay::onednn::primitives
