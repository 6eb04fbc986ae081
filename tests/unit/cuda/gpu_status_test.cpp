// What an error of each library means for a cell: its status. Needs the libraries and no GPU.
#include <gtest/gtest.h>

#include "backends/cuda/gpu/check.hpp"
#include "backends/cuda/gpu/cudnn.hpp"
#include "backends/cuda/gpu/frontend.hpp"
#include "backends/cuda/gpu/matmul.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {
namespace {

namespace fe = cudnn_frontend;

// "out of memory", "unavailable", "unsupported", "failed", or nothing.
template <typename Body>
std::string status_of(const Body& body) {
  try {
    body();
  } catch (const OutOfMemory&) {
    return "out of memory";
  } catch (const Unavailable&) {
    return "unavailable";
  } catch (const Unsupported&) {
    return "unsupported";
  } catch (const std::runtime_error&) {
    return "failed";
  }
  return "";
}

TEST(Status, OfTheRuntime) {
  const auto of = [](cudaError_t error) { return status_of([&] { check("a call", error); }); };
  EXPECT_EQ(of(cudaSuccess), "");
  EXPECT_EQ(of(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_EQ(of(cudaErrorNoKernelImageForDevice), "unavailable");
  EXPECT_EQ(of(cudaErrorInsufficientDriver), "unavailable");
  EXPECT_EQ(of(cudaErrorInvalidValue), "failed");
  EXPECT_EQ(of(cudaErrorIllegalAddress), "failed");
}

TEST(Status, ADriverThatIsTooOldIsNamedWithWhatIsNeeded) {
  const std::string text = driver_too_old(12020, 13000);
  for (const char* part :
       {"CUDA up to 12.2", "built with CUDA 13.0", "driver 580", "cuda-compat of CUDA 13.0"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Status, OfCudnn) {
  const auto of = [](cudnnStatus_t error) { return status_of([&] { check_cudnn("a call", error); }); };
  EXPECT_EQ(of(CUDNN_STATUS_SUCCESS), "");
  EXPECT_EQ(of(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED), "out of memory");
  EXPECT_EQ(of(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED), "out of memory");
  EXPECT_EQ(of(CUDNN_STATUS_NOT_SUPPORTED), "unsupported");
  EXPECT_EQ(of(CUDNN_STATUS_NOT_SUPPORTED_SHAPE), "unsupported");
  EXPECT_EQ(of(CUDNN_STATUS_BAD_PARAM), "failed");
  EXPECT_EQ(of(CUDNN_STATUS_EXECUTION_FAILED), "failed");
}

TEST(Status, OfCublas) {
  const auto of = [](cublasStatus_t error) { return status_of([&] { check_cublas("a call", error); }); };
  EXPECT_EQ(of(CUBLAS_STATUS_SUCCESS), "");
  EXPECT_EQ(of(CUBLAS_STATUS_ALLOC_FAILED), "out of memory");
  EXPECT_EQ(of(CUBLAS_STATUS_NOT_SUPPORTED), "unsupported");
  EXPECT_EQ(of(CUBLAS_STATUS_INVALID_VALUE), "failed");
}

TEST(Status, OnlyAMissingAlgorithmLeavesTheLibrary) {
  EXPECT_TRUE(has_algorithm(CUBLAS_STATUS_SUCCESS, 1));
  EXPECT_FALSE(has_algorithm(CUBLAS_STATUS_SUCCESS, 0));
  EXPECT_FALSE(has_algorithm(CUBLAS_STATUS_NOT_SUPPORTED, 0));
  EXPECT_EQ(status_of([] { has_algorithm(CUBLAS_STATUS_INVALID_VALUE, 0); }), "failed");
}

TEST(Status, OfTheFrontend) {
  using Code = fe::error_code_t;
  const auto of = [](Code code, const char* text) {
    return status_of([&] { check_frontend("a call", fe::error_t(code, text)); });
  };
  EXPECT_EQ(of(Code::OK, ""), "");
  EXPECT_EQ(of(Code::GRAPH_NOT_SUPPORTED, ""), "unsupported");
  EXPECT_EQ(of(Code::HEURISTIC_QUERY_FAILED, "No valid engine configs for ConvFwd_"), "unsupported");
  EXPECT_EQ(of(Code::HEURISTIC_QUERY_FAILED, "Heuristic query Engine failed."), "failed");
  EXPECT_EQ(of(Code::CUDNN_BACKEND_API_FAILED, "finalize, and code: CUDNN_STATUS_NOT_SUPPORTED_LAYOUT"),
            "unsupported");
  EXPECT_EQ(of(Code::CUDNN_BACKEND_API_FAILED, "finalize, and code: CUDNN_STATUS_BAD_PARAM"), "failed");
  EXPECT_EQ(of(Code::GRAPH_EXECUTION_PLAN_CREATION_FAILED, "CUDNN_STATUS_ALLOC_FAILED"), "out of memory");
  EXPECT_EQ(of(Code::ATTRIBUTE_NOT_SET, "no dimensions"), "failed");
}

}  // namespace
}  // namespace assay::cuda
