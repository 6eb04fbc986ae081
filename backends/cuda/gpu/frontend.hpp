// What cudnn_frontend's answers mean.
#pragma once

// Before cudnn_frontend.h, which brings another version of it.
#include <nlohmann/json.hpp>

#include <cudnn_frontend.h>

#include <string>

// Older ones stop with a null pointer where plans are counted that were not built, and give another plan's
// name after they sorted the plans.
static_assert(CUDNN_FRONTEND_VERSION >= 13200, "cudnn-frontend 1.32 or newer: run scripts/setup --cuda");

namespace assay::cuda {

// Empty if all is well; the message if cuDNN has no engine for what was asked. Throws OutOfMemory, and
// std::runtime_error ("[cudnn] validate a graph: ...") for everything else.
std::string reason_of(const char* call, const cudnn_frontend::error_t& answer);
// Throws as reason_of(), and Unsupported if cuDNN has no engine.
void check_frontend(const char* call, const cudnn_frontend::error_t& answer);

}  // namespace assay::cuda
