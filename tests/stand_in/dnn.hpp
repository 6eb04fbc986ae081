// What the parts of the stand-in for cuDNN share.
#pragma once

#include <cudnn.h>

#include "tests/stand_in/machine.hpp"
#include "tests/stand_in/numbers.hpp"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  assay::stand_in::Shaped shaped;
};

namespace assay::stand_in {

// Every description, for cudnnCreate...Descriptor and cudnnDestroy...Descriptor.
template <typename T>
cudnnStatus_t create_description(T** handle) {
  *handle = new T;
  hold("descriptions of cuDNN", 1);
  return CUDNN_STATUS_SUCCESS;
}
template <typename T>
cudnnStatus_t destroy_description(T* handle) {
  delete handle;
  hold("descriptions of cuDNN", -1);
  return CUDNN_STATUS_SUCCESS;
}

inline bool is_known(cudnnDataType_t type) { return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_BFLOAT16; }
inline Number number_of(cudnnDataType_t type) {
  if (type == CUDNN_DATA_BOOLEAN) return Number::bit;
  return type == CUDNN_DATA_BFLOAT16 ? Number::bf16 : Number::f32;
}

// What cudnnGetLastErrorString() returns next; returns the status.
cudnnStatus_t refuse(cudnnStatus_t status, const char* reason);

}  // namespace assay::stand_in
