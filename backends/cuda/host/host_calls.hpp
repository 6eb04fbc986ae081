// What cuDNN computes, as loops on the host: for the tests.
#pragma once

#include <memory>

#include "backends/cuda/primitives/calls.hpp"

namespace assay::cuda {

std::unique_ptr<Calls> make_host_calls();

}  // namespace assay::cuda
