#include "backends/reference/reference_backend.hpp"

#include <fmt/format.h>

#include "backends/reference/reference_library.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "harness/worker/backend.hpp"

namespace assay::reference {

BackendInfo ReferenceBackend::info() const {
  BackendInfo info{"reference", ASSAY_VERSION, {}, {{"instructions", "generic"}}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) info.settings["instructions"] = "avx2";
#endif
  if (threads_ > 0) info.settings["threads"] = std::to_string(threads_);
  return info;
}

std::string ReferenceBackend::unsupported(const Program& program, const CompileOptions& options) const {
  if (options.mode != "eager" && options.mode != "graph") {
    return fmt::format("[reference] mode '{}' is not one of eager, graph", options.mode);
  }
  if (options.device != DeviceKind::cpu)
    return fmt::format("[reference] device '{}' is not cpu", to_string(options.device));
  if (options.layout != "native") return fmt::format("[reference] layout '{}' is not native", options.layout);
  ReferenceLibrary library(1, options.precision.tf32);
  return first_unsupported(program, options, library);
}

std::unique_ptr<Executable> ReferenceBackend::compile(const Program& program, const CompileOptions& options) {
  if (std::string reason = unsupported(program, options); !reason.empty()) throw Unsupported(reason);
  threads_ = options.threads < 1 ? 1 : options.threads;
  return std::make_unique<KernelExecutable>(program, options, make_kernel_library(options));
}

}  // namespace assay::reference
