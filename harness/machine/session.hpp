// What may differ between two starts of the program on one machine, and affect speed.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace assay {

// Of the running system: it changes with every boot. Empty where the system has none.
std::string boot_id();

// Whether the environment variable of that name affects how fast a framework or a library computes: the settings of
// OpenMP runtimes (OMP_*, GOMP_*, KMP_*), of math libraries (MKL_*, DNNL_*, ONEDNN_*, OPENBLAS_*, BLIS_*, CUDA_*,
// CUDNN_*, CUBLAS_*, NVIDIA_*, NCCL_*), of frameworks (XLA_*, TF_*, MXNET_*, JAX_*, TORCH*, PYTORCH_*, NUMEXPR_*) and
// of the allocator and the loader (MALLOC_*, GLIBC_TUNABLES, LD_*).
bool affects_speed(std::string_view variable);

// The variables of this process that do, with their values.
std::map<std::string, std::string> speed_variables();

}  // namespace assay
