// Moves a value between two formats, through the row-major order where two flattened images differ in theirs.
#pragma once

#include <memory>

#include "backends/onednn/primitive_kernel.hpp"

namespace assay::onednn {

// One operand, one result. Only the host's transfers and mended disagreements pass here: a step of a
// well-settled graph has next to none. Owns the storage between its passes.
std::unique_ptr<Kernel> make_reorder(Context& context, const TensorType& type, const Layout& from,
                                     const Layout& to);

}  // namespace assay::onednn
