// Moves a value between two formats, through the row-major order if two flattened images have different
// orders.
#pragma once

#include <memory>

#include "backends/onednn/primitive_kernel.hpp"

namespace assay::onednn {

// One operand, one result. Used for transfers from and to the host, and where two nodes disagree about a
// format: a step of a graph has almost none of these. Owns the storage between its passes.
std::unique_ptr<Kernel> make_reorder(Context& context, const TensorType& type, const Layout& from,
                                     const Layout& to);

}  // namespace assay::onednn
