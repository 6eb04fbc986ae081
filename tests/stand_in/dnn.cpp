// The handle of cuDNN, its errors and its descriptions of tensors.
#include "tests/stand_in/dnn.hpp"

#include <algorithm>
#include <cstring>

using namespace assay::stand_in;

namespace {
std::string last_reason;
}

cudnnStatus_t assay::stand_in::refuse(cudnnStatus_t status, const char* reason) {
  last_reason = reason;
  return status;
}

// Newer ones describe a softmax as one operation.
std::size_t cudnnGetVersion() { return std::min<std::size_t>(CUDNN_VERSION, 92000); }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  if (status == CUDNN_STATUS_SUCCESS) return "CUDNN_STATUS_SUCCESS";
  if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return "CUDNN_STATUS_NOT_SUPPORTED";
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_BAD_PARAM) return "CUDNN_STATUS_BAD_PARAM";
  return "CUDNN_STATUS_EXECUTION_FAILED";
}

void cudnnGetLastErrorString(char* message, std::size_t size) {
  if (size == 0) return;
  std::strncpy(message, last_reason.c_str(), size - 1);
  message[size - 1] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (!find_memory()) return CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  *handle = new cudnnContext;
  hold("handles of cuDNN", 1);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  hold("handles of cuDNN", -1);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return create_description(tensor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return destroy_description(tensor);
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int count,
                                         const int dims[], const int strides[]) {
  if (count < 3 || count > CUDNN_DIM_MAX) return refuse(CUDNN_STATUS_BAD_PARAM, "3 to 8 dimensions");
  if (!is_known(type)) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the stand-in has float and bfloat16");
  for (int d = 0; d < count; ++d) {
    if (dims[d] < 1 || strides[d] < 1)
      return refuse(CUDNN_STATUS_BAD_PARAM, "dimensions and strides above 0");
  }
  tensor->shaped = {number_of(type), {dims, dims + count}, {strides, strides + count}};
  return CUDNN_STATUS_SUCCESS;
}
