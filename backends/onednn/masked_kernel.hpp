// A gradient and then, in place, the gradient of the ReLU before it.
#pragma once

#include <memory>

#include "backends/onednn/lowering.hpp"

namespace assay::onednn {

// Runs `inner`, then sets result 0 to zero where operand `mask` is not above zero. Both have the layout
// `desc`.
std::unique_ptr<Kernel> masked(Context& context, std::unique_ptr<Kernel> inner, const Desc& desc,
                               std::size_t mask);

}  // namespace assay::onednn
