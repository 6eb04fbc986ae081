#include "harness/machine/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

namespace assay {

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

bool may_be_listed(std::string_view name) {
  // Terraform's, which have the prefix of TensorFlow's.
  static constexpr std::array<std::string_view, 7> foreign{"TF_VAR_", "TF_CLI_",  "TF_TOKEN_",   "TF_HTTP_",
                                                           "TF_LOG",  "TF_INPUT", "TF_WORKSPACE"};
  static constexpr std::array<std::string_view, 5> secrets{"_KEY", "_TOKEN", "_SECRET", "_PASSWORD",
                                                           "_CREDENTIALS"};
  return std::ranges::none_of(foreign, [&](std::string_view prefix) { return name.starts_with(prefix); }) &&
         std::ranges::none_of(secrets, [&](std::string_view suffix) { return name.ends_with(suffix); });
}

bool affects_speed(std::string_view variable) {
  static constexpr std::array<std::string_view, 23> prefixes{
      "OMP_",  "GOMP_",  "KMP_",     "MKL_",     "DNNL_",   "ONEDNN_",        "OPENBLAS_", "BLIS_",
      "CUDA_", "CUDNN_", "CUBLAS_",  "NVIDIA_",  "NCCL_",   "XLA_",           "TF_",       "MXNET_",
      "JAX_",  "TORCH",  "PYTORCH_", "NUMEXPR_", "MALLOC_", "GLIBC_TUNABLES", "LD_"};
  return may_be_listed(variable) &&
         std::ranges::any_of(prefixes, [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

std::map<std::string, std::string> speed_variables() {
  std::map<std::string, std::string> found;
  for (char** entry = ::environ; entry && *entry; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == text.npos || !affects_speed(text.substr(0, equals))) continue;
    found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

}  // namespace assay
