#include "harness/machine/environment.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>

#include <fmt/format.h>

namespace assay {
namespace {

std::string policy_name(int policy) {
  switch (policy) {
    case SCHED_FIFO:
      return "fifo";
    case SCHED_RR:
      return "rr";
    case SCHED_BATCH:
      return "batch";
    case SCHED_IDLE:
      return "idle";
    default:
      return fmt::format("number {}", policy);
  }
}

}  // namespace

std::string unusual_scheduling() {
  std::string found;
  const auto add = [&](const std::string& what) { found += (found.empty() ? "" : ", ") + what; };
  const int policy = ::sched_getscheduler(0);
  if (policy >= 0 && (policy & ~SCHED_RESET_ON_FORK) != SCHED_OTHER)
    add("policy " + policy_name(policy & ~SCHED_RESET_ON_FORK));
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, 0);
  if (errno == 0 && nice != 0) add(fmt::format("nice {}", nice));
  int memory = MPOL_DEFAULT;
  if (::syscall(SYS_get_mempolicy, &memory, nullptr, 0, nullptr, 0) == 0 && memory != MPOL_DEFAULT)
    add("memory bound to nodes");
  if (::prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1) add("no huge pages");
  return found;
}

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
  static constexpr std::array<std::string_view, 39> prefixes{
      "OMP_",     "GOMP_",     "KMP_",      "LIBOMP_",   "MKL_",    "DNNL_",          "ONEDNN_",  "MKLDNN_",
      "OPENBLAS", "GOTO_",     "BLIS_",     "VECLIB_",   "TBB_",    "NPY_",           "NUMEXPR_", "CUDA_",
      "CUDNN_",   "CUBLAS_",   "NVIDIA_",   "NCCL_",     "GLOO_",   "OMPI_MCA_",      "UCX_",     "XLA_",
      "PJRT_",    "TF_",       "KERAS_",    "MXNET_",    "DMLC_",   "JAX_",           "TORCH",    "PYTORCH_",
      "TRITON_",  "AUTOGRAPH", "TCMALLOC_", "MIMALLOC_", "MALLOC_", "GLIBC_TUNABLES", "LD_"};
  // The last two choose the compiler of code that is made while it runs.
  static constexpr std::array<std::string_view, 8> names{
      "ATEN_CPU_CAPABILITY", "PYTHONPATH",     "PYTHONHOME", "PYTHONOPTIMIZE",
      "PYTHONMALLOC",        "PYTHONUSERBASE", "CC",         "CXX"};
  return may_be_listed(variable) &&
         (std::ranges::any_of(prefixes,
                              [&](std::string_view prefix) { return variable.starts_with(prefix); }) ||
          std::ranges::find(names, variable) != names.end());
}

}  // namespace assay
