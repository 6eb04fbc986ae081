#include "backends/onednn/backend.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <omp.h>

#include "backends/onednn/library.hpp"
#include "backends/onednn/loops/loops.hpp"
#include "backends/onednn/primitives/ops.hpp"
#include "harness/engine/kernel_executable.hpp"

namespace assay::onednn {
namespace {

const char* isa_name(dnnl_cpu_isa_t isa) {
  switch (isa) {
    case dnnl_cpu_isa_sse41:
      return "sse41";
    case dnnl_cpu_isa_avx:
      return "avx";
    case dnnl_cpu_isa_avx2:
      return "avx2";
    case dnnl_cpu_isa_avx2_vnni:
      return "avx2_vnni";
    case dnnl_cpu_isa_avx2_vnni_2:
      return "avx2_vnni_2";
    case dnnl_cpu_isa_avx512_core:
      return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_fp16:
      return "avx512_core_fp16";
    case dnnl_cpu_isa_avx512_core_amx:
      return "avx512_core_amx";
    case dnnl_cpu_isa_avx512_core_amx_fp16:
      return "avx512_core_amx_fp16";
    default:
      return "default";
  }
}

std::string path_of(const void* symbol) {
  Dl_info found{};
  return dladdr(symbol, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : "";
}

// The threads that a parallel region really has, which may be fewer than requested.
int observed_threads() {
  int threads = 1;
#pragma omp parallel
  {
#pragma omp single
    threads = omp_get_num_threads();
  }
  return threads;
}

}  // namespace

BackendInfo OnednnBackend::info() const {
  const dnnl_version_t* version = dnnl_version();
  const std::string number = fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
  BackendInfo info;
  info.name = "onednn";
  info.version = number;
  info.libraries.push_back({"oneDNN", fmt::format("{} ({})", number, version->hash),
                            path_of(reinterpret_cast<const void*>(&dnnl_version))});
  info.libraries.push_back(
      {"OpenMP", fmt::format("{}", _OPENMP), path_of(reinterpret_cast<const void*>(&omp_get_num_threads))});
  info.settings = {{"threads", fmt::format("{}", observed_threads())},
                   {"instruction_set", isa_name(dnnl_get_effective_cpu_isa())},
                   {"own_loops", loops().name},
                   {"math_mode", "strict"}};
  if (exchange_) {
    info.settings["collectives"] = "mpi: " + exchange_->library();
    info.settings["all_reduce"] =
        exchange_->progress() == collectives::Progress::thread ? "in a thread" : "in the step";
  }
  if (!outside_of_library_.empty()) info.settings["outside_of_library"] = outside_of_library_;
  return info;
}

std::string OnednnBackend::unsupported(const Program& program, const CompileOptions& options) const {
  const PrecisionKind precision = options.precision.kind;
  if (options.device != DeviceKind::cpu)
    return fmt::format("device '{}': this backend runs on cpu", to_string(options.device));
  if (options.mode != "eager" && options.mode != "graph" && options.mode != primitives_mode) {
    return fmt::format("mode '{}': this backend has eager, graph and {}", options.mode, primitives_mode);
  }
  if (options.layout != "native") return fmt::format("layout '{}': this backend has native", options.layout);
  if (precision != PrecisionKind::fp32 && precision != PrecisionKind::bf16) {
    return fmt::format("precision '{}': this backend has fp32 and bf16", to_string(precision));
  }
  if (precision == PrecisionKind::bf16 && !has_bf16()) {
    return fmt::format("precision 'bf16': this CPU has {} at best, bf16 needs AVX-512 BF16 or AMX",
                       isa_name(dnnl_get_effective_cpu_isa()));
  }
  if (options.world > 1) {
    if (std::string reason = reason_against_ranks(program, options.task); !reason.empty()) return reason;
  }
  return first_unsupported(program, options, *make_kernel_library(options));
}

std::unique_ptr<Executable> OnednnBackend::compile(const Program& program, const CompileOptions& options) {
  const auto is_outside = [](const Node& node) { return primitives::is_outside_of_library(node.op->name()); };
  outside_of_library_ = options.mode == primitives_mode ? ops_of_step(program, options, is_outside) : "";
  if (options.world > 1 && !exchange_) {
    try {
      exchange_ = std::make_shared<collectives::Exchange>(join_(options.rank, options.world));
    } catch (const collectives::NoMpi& error) {
      throw Unavailable(error.what());
    }
  }
  return std::make_unique<KernelExecutable>(
      program, options, make_kernel_library_of_ranks(options, options.world > 1 ? exchange_ : nullptr));
}

}  // namespace assay::onednn
