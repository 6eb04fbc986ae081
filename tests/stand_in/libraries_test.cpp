// What the stand-ins for cuBLASLt and cuDNN refuse.
#include <vector>

#include "backends/cuda/gpu/convolution.hpp"
#include "backends/cuda/gpu/device_memory.hpp"
#include "backends/cuda/gpu/matmul.hpp"
#include "tests/stand_in/scope.hpp"

namespace assay::stand_in {
namespace {

using cuda::OwnedStream;

// c = a b of 2 x 2 matrices, called as gpu/matmul.cpp does, with a workspace `beyond` bytes from where it should begin.
cublasStatus_t multiply(std::int64_t beyond) {
  const OwnedStream stream;
  cuda::DeviceMemory memory(stream.get(), 0);
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  cublasLtCreate(&handle);
  cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 2, 2, 2);
  cublasLtMatmulPreferenceCreate(&preference);
  const std::uint64_t most = 1 << 20;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                       sizeof most);
  cublasLtMatmulAlgoGetHeuristic(handle, operation, layout, layout, layout, layout, preference, 1, &result,
                                 &found);
  EXPECT_EQ(found, 1);
  EXPECT_GT(result.workspaceSize, 0U);
  const Storage a(memory, 16, "a test"), c(memory, 16, "a test"), workspace(memory, 1 << 20, "a test");
  memory.clear(a.data(), 16);
  const float one = 1, zero = 0;
  const cublasStatus_t status = cublasLtMatmul(
      handle, operation, &one, a.data(), layout, a.data(), layout, &zero, c.data(), layout, c.data(), layout,
      &result.algo, static_cast<std::byte*>(workspace.data()) + beyond, result.workspaceSize, stream.get());
  cudaStreamSynchronize(stream.get());
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(operation);
  cublasLtDestroy(handle);
  return status;
}

TEST(CublasLt, RefusesAWorkspaceThatIsNotAlignedTo256Bytes) {
  const Scope scope;
  EXPECT_EQ(multiply(0), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(multiply(256), CUBLAS_STATUS_SUCCESS);
  for (const std::int64_t beyond : {64, 128, 192}) EXPECT_EQ(multiply(beyond), CUBLAS_STATUS_INVALID_VALUE);
}

TEST(CublasLt, RefusesSizesThatDoNotFit) {
  const Scope scope;
  cublasLtMatrixLayout_t layout = nullptr;
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 4, 4, 3), CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulPreferenceCreate(&preference);
  const std::uint32_t narrow = 1;
  EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                 &narrow, sizeof narrow),
            CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatmulPreferenceDestroy(preference);
}

TEST(Cudnn, RefusesPartsThatAreNotFinal) {
  cudnnBackendDescriptor_t tensor = nullptr, operation = nullptr;
  cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor);
  cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, &operation);
  EXPECT_EQ(cudnnBackendSetAttribute(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensor),
            CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  EXPECT_NE(cudnnBackendFinalize(tensor), CUDNN_STATUS_SUCCESS) << "it has no dimensions";
  cudnnBackendDestroyDescriptor(tensor);
  cudnnBackendDestroyDescriptor(operation);
}

}  // namespace
}  // namespace assay::stand_in
