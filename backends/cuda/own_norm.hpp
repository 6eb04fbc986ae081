// Batch normalisation without a vendor's library: three launches for each pass.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/cuda/kernels/launch.hpp"
#include "backends/cuda/products.hpp"

namespace assay::cuda {

std::shared_ptr<Norm> make_own_norm(const NormSpec& spec, Stream stream, std::string name = "own:norm");

// For a search: copies y, with other numbers where the mask is not that of y > 0.
void copy_where_mask_is_right(Stream stream, const NormSpec& spec, const void* y, const std::uint8_t* mask,
                              void* to);

}  // namespace assay::cuda
