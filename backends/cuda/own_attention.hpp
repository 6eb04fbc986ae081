// Attention by our own kernels.
#pragma once

#include <memory>
#include <string>

#include "backends/cuda/device.hpp"
#include "backends/cuda/products.hpp"

namespace assay::cuda {

// Whether it is without a library's products.
bool is_small(const AttentionSpec& spec);

// The products of a large one are the device's. name: empty for one that says how it is made.
std::shared_ptr<Attention> make_own_attention(const AttentionSpec& spec, Device& device,
                                              std::string name = "");

}  // namespace assay::cuda
