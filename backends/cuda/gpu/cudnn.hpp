// Every call into cuDNN goes through ASSAY_CUDNN, which says the call that failed and why; its descriptors
// are made and destroyed here.
#pragma once

#include <cudnn.h>

#include "harness/core/tensor.hpp"

namespace assay::cuda {

// Throws Unsupported for what this cuDNN or this GPU does not have, OutOfMemory, std::runtime_error for other
// failures.
void check_cudnn(const char* call, cudnnStatus_t status);

cudnnDataType_t cudnn_type(DType dtype);

template <typename T, cudnnStatus_t (*Create)(T*), cudnnStatus_t (*Destroy)(T)>
class Descriptor {
 public:
  Descriptor() { check_cudnn("cudnnCreate...Descriptor", Create(&value_)); }
  ~Descriptor() { Destroy(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  T get() const { return value_; }

 private:
  T value_ = nullptr;
};
using TensorDescriptor =
    Descriptor<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;

}  // namespace assay::cuda

#define ASSAY_CUDNN(call) ::assay::cuda::check_cudnn(#call, call)
