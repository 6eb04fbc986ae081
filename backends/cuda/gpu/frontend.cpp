#include "backends/cuda/gpu/frontend.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>

#include "harness/worker/backend.hpp"

namespace assay::cuda {
namespace {

using Code = cudnn_frontend::error_code_t;

// An error of the library under the frontend has one code; its status is only in the text.
bool is_missing_engine(Code code, std::string_view text) {
  switch (code) {
    case Code::GRAPH_NOT_SUPPORTED:
    case Code::UNSUPPORTED_GRAPH_FORMAT:
    case Code::GRAPH_EXECUTION_PLAN_CREATION_FAILED:
      return true;
    case Code::HEURISTIC_QUERY_FAILED:
      return text.starts_with("No valid engine configs") ||
             text.find("CUDNN_STATUS_NOT_SUPPORTED") != std::string_view::npos;
    case Code::CUDNN_BACKEND_API_FAILED:
      return text.find("CUDNN_STATUS_NOT_SUPPORTED") != std::string_view::npos;
    default:
      return false;
  }
}

bool is_out_of_memory(std::string_view text) {
  for (const std::string_view status :
       {"ALLOC_FAILED", "ALLOCATION_FAILED", "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY"}) {
    if (text.find(status) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

std::string reason_of(const char* call, const cudnn_frontend::error_t& answer) {
  if (answer.is_good()) return {};
  const std::string text = fmt::format("[cudnn] {}: {}", call, answer.err_msg);
  if (is_out_of_memory(answer.err_msg)) throw OutOfMemory(text);
  if (!is_missing_engine(answer.code, answer.err_msg)) throw std::runtime_error(text);
  return answer.err_msg.empty() ? text : answer.err_msg;
}

void check_frontend(const char* call, const cudnn_frontend::error_t& answer) {
  if (const std::string reason = reason_of(call, answer); !reason.empty())
    throw Unsupported(fmt::format("[cudnn] {}: {}", call, reason));
}

}  // namespace assay::cuda
