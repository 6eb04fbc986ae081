// The alignment of the workspaces that the vendor's libraries get.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace assay::cuda {

// cublasLtMatmul(): "Must be 256B aligned". cuDNN calls cuBLASLt, and is tested with what cudaMalloc() returns.
inline constexpr std::int64_t workspace_alignment = 256;

// Throws std::logic_error instead of letting a library fault. An empty workspace may be anywhere.
inline void check_workspace(const char* user, const void* workspace, std::int64_t bytes) {
  const auto beyond =
      reinterpret_cast<std::uintptr_t>(workspace) % static_cast<std::uintptr_t>(workspace_alignment);
  if (bytes == 0 || beyond == 0) return;
  throw std::logic_error("[" + std::string(user) + "] got a workspace " + std::to_string(beyond) +
                         " bytes beyond a multiple of " + std::to_string(workspace_alignment));
}

}  // namespace assay::cuda
