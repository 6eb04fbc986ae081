// The ops that mode primitives lowers in its own way: each to primitives of oneDNN, in the formats that they
// choose (format_tag::any).
#pragma once

#include <span>

#include "backends/onednn/lowering.hpp"

namespace assay::onednn::primitives {

std::span<const OpEntry> convolution_ops();
std::span<const OpEntry> pool_ops();
std::span<const OpEntry> pointwise_ops();
std::span<const OpEntry> norm_ops();
std::span<const OpEntry> reduce_ops();
std::span<const OpEntry> loss_ops();
std::span<const OpEntry> lstm_ops();
std::span<const OpEntry> optimizer_ops();

// Null where this mode does not have the op.
const OpEntry* find_entry(std::string_view op);
// Whether the op is computed by a loop of ours, in whole or in part: oneDNN has no primitive for it.
bool is_outside_of_library(std::string_view op);

}  // namespace assay::onednn::primitives
