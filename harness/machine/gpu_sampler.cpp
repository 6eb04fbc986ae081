#include "harness/machine/gpu_sampler.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "harness/core/paths.hpp"
#include "harness/core/process_tree.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/system_files.hpp"

namespace assay {
namespace {

constexpr int max_ancestry = 64;

std::filesystem::path folder_of(pid_t process) {
  return std::filesystem::path("/proc") / std::to_string(process);
}

// The worker may have started a process after its tree was read.
bool belongs(pid_t process, std::span<const pid_t> worker) {
  if (contains(worker, process)) return true;
  if (worker.empty()) return false;
  if (::getpgid(process) == worker.front()) return true;
  for (int i = 0; i < max_ancestry && process > 1; ++i) {
    process = parent_of(process);
    if (process == worker.front()) return true;
  }
  return false;
}

NvmlResult<Gpu> of_uuid(const Nvml& nvml, const std::string& wanted) {
  if (wanted.starts_with("MIG-")) return nvml.gpu_by_uuid(wanted);
  const NvmlResult<unsigned> count = nvml.count();
  if (!count.value) return {std::nullopt, count.reason};
  for (unsigned i = 0; i < *count.value; ++i) {
    NvmlResult<Gpu> gpu = nvml.gpu(i);
    if (gpu.value && gpu.value->uuid().value.value_or("").starts_with(wanted)) return gpu;
  }
  return {std::nullopt, fmt::format("CUDA_VISIBLE_DEVICES begins with {}, but NVML has no such GPU", wanted)};
}

}  // namespace

std::vector<std::string> visible_gpus(const std::optional<std::string>& devices, unsigned count) {
  std::vector<std::string> names;
  if (!devices) {
    for (unsigned i = 0; i < count; ++i) names.push_back(std::to_string(i));
    return names;
  }
  std::istringstream list(*devices);
  // CUDA ignores what comes after a name that it does not know, such as -1.
  for (std::string name; std::getline(list, name, ',') && !name.empty() && name.front() != '-';)
    names.push_back(name);
  return names;
}

std::string gpu_of_worker(int number, bool launched) {
  const auto index = static_cast<std::size_t>(number);
  const std::vector<std::string> gpus =
      visible_gpus(environment_variable("CUDA_VISIBLE_DEVICES"), static_cast<unsigned>(number) + 1);
  if (launched && gpus.size() == 1) return gpus.front();
  return index < gpus.size() ? gpus[index] : "-1";
}

NvmlResult<Gpu> first_cuda_gpu(const Nvml& nvml, const CudaVisibility& visible) {
  const NvmlResult<unsigned> count = nvml.count();
  if (!count.value) return {std::nullopt, count.reason};
  if (*count.value == 0) return {std::nullopt, "NVML does not find a GPU on this machine"};
  std::string first = visible.devices ? visible.devices->substr(0, visible.devices->find(',')) : "0";
  if (first.starts_with("GPU-") || first.starts_with("MIG-")) return of_uuid(nvml, first);
  unsigned index = 0;
  const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), index);
  if (error != std::errc() || end != first.data() + first.size())
    return {std::nullopt,
            fmt::format("CUDA_VISIBLE_DEVICES is \"{}\": it hides every GPU", *visible.devices)};
  if (*count.value > 1 && visible.order != "PCI_BUS_ID")
    return {std::nullopt,
            fmt::format("NVML does not know which of {} GPUs is CUDA's first: set "
                        "CUDA_DEVICE_ORDER=PCI_BUS_ID, or name one by its UUID in CUDA_VISIBLE_DEVICES",
                        *count.value)};
  NvmlResult<Gpu> gpu = nvml.gpu(index);
  // CUDA sees the first instance of a GPU that is divided.
  if (gpu.value && gpu.value->mig().value.value_or(false)) return gpu.value->first_instance();
  return gpu;
}

GpuSampler::GpuSampler(const NvmlAccess& access, const CudaVisibility& visible) {
  if (!access.nvml) {
    use_.reason = access.reason;
    return;
  }
  NvmlResult<Gpu> gpu = first_cuda_gpu(*access.nvml, visible);
  use_.reason = gpu.reason;
  if (!gpu.value) return;
  gpu_ = *gpu.value;
  board_ = gpu_->board();  // an instance has no clocks, power and temperature of its own
  use_.model = gpu_->model().value.value_or("");
  use_.uuid = gpu_->uuid().value.value_or("");
}

template <typename T>
std::optional<T> GpuSampler::keep(const char* field, NvmlResult<T> told, GpuPhase phase) {
  if (!told.value && phase != GpuPhase::afterwards) {
    Lack& lack = lacks_[field];
    if (lack.looks++ == 0) lack.reason = std::move(told.reason);
  }
  return std::move(told.value);
}

std::optional<GpuReading> GpuSampler::sample(std::span<const pid_t> worker, GpuPhase phase) {
  if (!gpu_) return std::nullopt;
  if (phase != GpuPhase::afterwards) ++looks_;
  GpuReading reading;
  // Read first, because it is a counter: a later position in the look would shift it against the clock.
  reading.energy_joules = keep("gpu_energy_joules", board_->energy(), phase);
  reading.utilisation = keep("gpu_utilisation", board_->utilisation(), phase);
  if (const auto memory = keep("gpu_device_memory", gpu_->memory(), phase)) {
    reading.device_memory = memory->used;
    total_memory_ = memory->total;
  }
  reading.sm_clock_hz = keep("gpu_sm_clock_hz", board_->sm_clock(), phase);
  reading.memory_clock_hz = keep("gpu_memory_clock_hz", board_->memory_clock(), phase);
  reading.power_watts = keep("gpu_power_watts", board_->power(), phase);
  reading.temperature_celsius = keep("gpu_temperature_celsius", board_->temperature(), phase);
  reading.throttle = keep("gpu_throttle", board_->throttle_reasons(), phase);
  look_at_processes(reading, worker, phase);
  if (phase != GpuPhase::afterwards) {
    use_.worker_peak = std::max(use_.worker_peak, reading.worker_memory);
    use_.device_peak = std::max(use_.device_peak, reading.device_memory);
  }
  return reading;
}

// Until the worker is seen on the GPU for the first time, its memory is unknown: it may not have started
// there, or may have another process id there.
void GpuSampler::look_at_processes(GpuReading& reading, std::span<const pid_t> worker, GpuPhase phase) {
  NvmlResult<std::vector<GpuProcess>> listed = gpu_->compute_processes();
  const bool told = listed.value.has_value();
  std::vector<GpuProcess> processes =
      keep("gpu_worker_memory", std::move(listed), phase).value_or(std::vector<GpuProcess>());
  // A process that only draws is foreign and does not count as worker's memory; it may be in both lists.
  for (const GpuProcess& process : gpu_->graphics_processes().value.value_or(std::vector<GpuProcess>())) {
    const auto same = [&](const GpuProcess& other) { return other.pid == process.pid; };
    if (std::none_of(processes.begin(), processes.end(), same)) processes.push_back(process);
  }
  std::int64_t held = 0;
  bool known = true;
  for (const GpuProcess& process : processes) {
    if (belongs(process.pid, worker)) {
      worker_seen_ = true;
      held += process.memory.value_or(0);
      known = known && process.memory;
      continue;
    }
    if (phase != GpuPhase::steps) continue;
    ForeignProcess& foreign = foreign_[process.pid];
    foreign.pid = process.pid;
    if (foreign.name.empty()) foreign.name = file_text(folder_of(process.pid) / "comm").value_or("");
    stranger_seen_ = stranger_seen_ || foreign.name.empty();
    foreign.memory = std::max(foreign.memory, process.memory);
  }
  if (!told || !worker_seen_) return;
  reading.worker_memory =
      keep("gpu_worker_memory",
           known ? NvmlResult<std::int64_t>{held, ""}
                 : NvmlResult<std::int64_t>{std::nullopt, "NVML does not report the memory of each process"},
           phase);
}

std::string GpuSampler::memory_text() const {
  if (!use_.device_peak || total_memory_ <= 0) return "";
  const auto mebibytes = [](std::int64_t bytes) { return bytes >> 20; };
  std::string text = fmt::format("of {} MiB on the GPU ", mebibytes(total_memory_));
  if (use_.worker_peak) text += fmt::format("the worker held {} at most, and ", mebibytes(*use_.worker_peak));
  return text + fmt::format("{} were free at least", mebibytes(total_memory_ - *use_.device_peak));
}

GpuUse GpuSampler::use() const {
  GpuUse use = use_;
  for (const auto& [field, lack] : lacks_) {
    use.missing[field] = lack.looks == looks_
                             ? lack.reason
                             : fmt::format("{}, in {} of {} looks", lack.reason, lack.looks, looks_);
  }
  if (gpu_ && !worker_seen_ && !lacks_.contains("gpu_worker_memory")) {
    use.missing["gpu_worker_memory"] =
        stranger_seen_
            ? "NVML names processes that this system does not show, and not the worker: in a container give "
              "it the host's process ids (--pid=host)"
            : "NVML never named the worker among the processes on the GPU: it did not use it, or, in a "
              "container, it needs the host's process ids (--pid=host)";
  }
  // A failed look may have missed a peak.
  if (lacks_.contains("gpu_worker_memory")) use.worker_peak.reset();
  if (lacks_.contains("gpu_device_memory")) use.device_peak.reset();
  for (const auto& [pid, process] : foreign_) {
    // It may be the worker, with another process id.
    if (process.name.empty() && !worker_seen_) continue;
    use.foreign.push_back(process);
  }
  return use;
}

}  // namespace assay
