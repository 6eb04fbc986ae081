#include "backends/cuda/gpu/backend.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "backends/cuda/choices.hpp"
#include "backends/cuda/gpu/check.hpp"
#include "backends/cuda/library.hpp"
#include "backends/cuda/primitives/ops.hpp"
#include "harness/core/paths.hpp"
#include "harness/engine/kernel_executable.hpp"

namespace assay::cuda {
namespace {

std::string path_of(const void* symbol) {
  Dl_info found{};
  return dladdr(symbol, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : "";
}

std::string cudnn_version() {
  const std::size_t version = cudnnGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

// The device and the libraries on which a choice of engines depends.
std::string where_engines_run() {
  cudaDeviceProp device{};
  int driver = 0;
  cudaGetDeviceProperties(&device, 0);
  cudaDriverGetVersion(&driver);
  cudaGetLastError();
  return fmt::format(
      "{} with {} processors, compute capability {}.{}, driver of CUDA {}, cuDNN {}, cuBLASLt {}",
      device.name, device.multiProcessorCount, device.major, device.minor, cuda_version(driver),
      cudnn_version(), cublasLtGetVersion());
}

}  // namespace

BackendInfo CudaBackend::info() const {
  BackendInfo info;
  int runtime = 0, driver = 0, devices = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);  // 0 without a driver
  info.name = "cuda";
  info.version = cuda_version(runtime);
  info.libraries = {{"CUDA runtime", cuda_version(runtime), ""},
                    {"CUDA driver", cuda_version(driver), ""},
                    {"cuDNN", cudnn_version(), path_of(reinterpret_cast<const void*>(&cudnnGetVersion))},
                    {"cuBLASLt", fmt::format("{}", cublasLtGetVersion()),
                     path_of(reinterpret_cast<const void*>(&cublasLtGetVersion))}};
  info.settings = {
      {"algorithm_search",
       bare_ ? "none: the first engine of the heuristic"
             : "all measured, heuristic if deterministic; workspaces of convolutions up to 1 GiB"}};
  if (bare_) info.settings["outside_of_library"] = outside_of_library_;
  if (choices_ != nullptr) {
    info.settings["own_kernels_for_missing_engines"] = choices_->fallbacks();
    info.settings["engines"] = choices_->engines();
    info.settings["engines_of_an_earlier_search"] = choices_->reused();
    info.settings["engines_with_wrong_results"] = choices_->refused();
  }
  if (ranks_ != nullptr) info.settings["collectives"] = "nccl: NCCL " + ranks_->version();
  cudaDeviceProp device{};
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0 &&
      cudaGetDeviceProperties(&device, 0) == cudaSuccess) {
    info.settings["gpu"] = device.name;
    info.settings["compute_capability"] = fmt::format("{}.{}", device.major, device.minor);
  }
  cudaGetLastError();
  return info;
}

std::string CudaBackend::unsupported(const Program& program, const CompileOptions& options) const {
  const PrecisionKind precision = options.precision.kind;
  if (options.device != DeviceKind::cuda)
    return fmt::format("device '{}': this backend runs on cuda", to_string(options.device));
  const bool bare = is_bare(options.mode);
  if (options.mode != "eager" && options.mode != "graph" && options.mode != in_order_mode && !bare)
    return fmt::format("mode '{}': this backend has eager, graph, {}, {} and {}", options.mode, in_order_mode,
                       primitives_mode, captured_primitives_mode);
  if (options.layout != "native") return fmt::format("layout '{}': this backend has native", options.layout);
  if (precision == PrecisionKind::fp64)
    return fmt::format("precision '{}': this backend has fp32, tf32 and bf16", to_string(precision));
  if (options.world > 1) {
    if (std::string reason = reason_against_ranks(program, options.task); !reason.empty()) return reason;
  }
  if (std::string reason = generates_no_tokens(program, options.task); !reason.empty()) return reason;
  for (const Graph& graph : graphs_of(program, options)) {
    const Graph lowered = bare                      ? primitives::rewritten(graph)
                          : options.mode == "eager" ? graph
                                                    : fused(graph);
    for (const Node& node : lowered.nodes()) {
      std::string reason = bare ? primitives::reason_against(lowered, node) : reason_against(lowered, node);
      if (!reason.empty()) return reason;
    }
  }
  return {};
}

std::unique_ptr<Executable> CudaBackend::compile(const Program& program, const CompileOptions& options) {
  bare_ = is_bare(options.mode);
  outside_of_library_ = bare_ ? ops_of_step(program, options, primitives::is_outside_of_library) : "";
  choices_ = std::make_shared<Choices>(environment_text("ASSAY_CUDA_CHOICES"), where_engines_run(),
                                       environment_text("ASSAY_CUDA_PLANS"));
  if (options.world > 1 && ranks_ == nullptr) ranks_ = join_nccl(options.rank, options.world);
  auto library = make_kernel_library(options, choices_, options.world > 1 ? ranks_ : nullptr);
  cudaDeviceProp device{};
  ASSAY_CUDA(cudaGetDeviceProperties(&device, 0));
  if (const std::string reason = reason_against(options.precision.kind, device.major, device.minor);
      !reason.empty())
    throw Unsupported(reason);
  auto executable = std::make_unique<KernelExecutable>(program, options, std::move(library));
  choices_->keep();
  return executable;
}

}  // namespace assay::cuda
