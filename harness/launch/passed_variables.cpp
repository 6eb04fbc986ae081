#include "harness/launch/passed_variables.hpp"

#include <algorithm>
#include <array>

namespace assay {

bool reaches_worker(std::string_view variable) {
  static constexpr std::array<std::string_view, 18> names{"PATH",
                                                          "HOME",
                                                          "USER",
                                                          "LOGNAME",
                                                          "SHELL",
                                                          "LANG",
                                                          "LANGUAGE",
                                                          "TZ",
                                                          "TMPDIR",
                                                          "LD_LIBRARY_PATH",
                                                          "CUDA_VISIBLE_DEVICES",
                                                          "CUDA_DEVICE_ORDER",
                                                          "CUDA_HOME",
                                                          "CUDA_PATH",
                                                          "CUDA_MPS_PIPE_DIRECTORY",
                                                          "CUDA_MPS_LOG_DIRECTORY",
                                                          "NVIDIA_VISIBLE_DEVICES",
                                                          "NVIDIA_DRIVER_CAPABILITIES"};
  return variable.starts_with("LC_") || variable.starts_with("ASSAY_") ||
         std::ranges::find(names, variable) != names.end();
}

bool reaches_launcher(std::string_view variable) {
  static constexpr std::array<std::string_view, 13> prefixes{"OMPI_", "OPAL_",  "PMIX_", "PMI_",  "PRTE_",
                                                             "SLURM", "HYDRA_", "MPI",   "I_MPI", "FI_",
                                                             "UCX_",  "PSM2_",  "MUNGE"};
  return reaches_worker(variable) ||
         std::ranges::any_of(prefixes, [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

}  // namespace assay
