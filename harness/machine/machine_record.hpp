// What is known of a machine: environment() reads it, `assay env --json` prints it, reports and calibrations keep it. Units:
// bytes, Hz, ns, s.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/core/json/fields.hpp"
#include "harness/core/json/reported.hpp"

namespace assay {

struct CacheRecord {
  int level = 0;
  std::string type{};  // "Data", "Instruction", "Unified"
  std::int64_t bytes = 0;
  Reported<std::int64_t> line_bytes{};
  int shared_by = 0, count = 0;
  bool operator==(const CacheRecord&) const = default;
};
inline Description describe(Of<CacheRecord>) {
  return fields("machine_cache", "Caches of the processor that are alike.",
                field("level", &CacheRecord::level, "From 1, the nearest to a core."),
                field("type", &CacheRecord::type, "`Data`, `Instruction` or `Unified`."),
                field("bytes", &CacheRecord::bytes, "Size of one of them."),
                field("line_bytes", &CacheRecord::line_bytes, "Size of its lines.").left_out_by_default(),
                field("shared_by", &CacheRecord::shared_by, "Hardware threads that share one of them."),
                field("count", &CacheRecord::count, "Their number."));
}

struct ProcessorRecord {
  Reported<std::string> model{}, vendor{}, family{}, model_number{}, stepping{}, microcode{}, architecture{};
  Reported<int> logical{}, allowed{}, cores{}, sockets{}, numa_nodes{}, threads_per_core{};
  Reported<std::vector<std::string>> instruction_sets{};
  Reported<std::vector<CacheRecord>> caches{};
  Reported<double> loop_seconds{};
  Reported<std::string> smt{}, governor{}, driver{};
  Reported<bool> boost{};
  Reported<std::int64_t> maximum_hz{};
  bool operator==(const ProcessorRecord&) const = default;
};
inline Description describe(Of<ProcessorRecord>) {
  return fields(
      "machine_processor",
      "The processor, its cores, caches and memory nodes: of the whole machine, by hwloc.",
      field("model", &ProcessorRecord::model, "Its name.").left_out_by_default(),
      field("vendor", &ProcessorRecord::vendor, "On Arm its implementer.").left_out_by_default(),
      field("family", &ProcessorRecord::family, "On Arm its architecture.").left_out_by_default(),
      field("model_number", &ProcessorRecord::model_number, "On Arm its part.").left_out_by_default(),
      field("stepping", &ProcessorRecord::stepping, "On Arm its revision.").left_out_by_default(),
      field("microcode", &ProcessorRecord::microcode, "Its version.").left_out_by_default(),
      field("architecture", &ProcessorRecord::architecture, "`x86_64`, `aarch64`.").left_out_by_default(),
      field("logical", &ProcessorRecord::logical, "Hardware threads.").left_out_by_default(),
      field("allowed", &ProcessorRecord::allowed, "Hardware threads that the program may use.")
          .left_out_by_default(),
      field("cores", &ProcessorRecord::cores, "Cores.").left_out_by_default(),
      field("sockets", &ProcessorRecord::sockets, "Sockets.").left_out_by_default(),
      field("numa_nodes", &ProcessorRecord::numa_nodes, "Memory nodes.").left_out_by_default(),
      field("threads_per_core", &ProcessorRecord::threads_per_core, "Null if cores differ.")
          .left_out_by_default(),
      field("instruction_sets", &ProcessorRecord::instruction_sets,
            "Those that affect the speed of a network, as the kernel names them.")
          .left_out_by_default(),
      field("caches", &ProcessorRecord::caches, "One entry for each kind.").left_out_by_default(),
      field("loop_seconds", &ProcessorRecord::loop_seconds,
            "Time of a fixed chain of dependent multiplications on one core, the shortest of several.")
          .left_out_by_default(),
      field("smt", &ProcessorRecord::smt,
            "Whether several hardware threads share a core, as the kernel says.")
          .left_out_by_default(),
      field("governor", &ProcessorRecord::governor, "The kernel's governor of the frequency.")
          .left_out_by_default(),
      field("driver", &ProcessorRecord::driver, "The kernel's driver of the frequency.")
          .left_out_by_default(),
      field("boost", &ProcessorRecord::boost, "Whether the clock may exceed its nominal frequency.")
          .left_out_by_default(),
      field("maximum_hz", &ProcessorRecord::maximum_hz, "The maximum frequency.").left_out_by_default());
}

struct MemoryRecord {
  Reported<std::int64_t> total{}, available{}, swap_total{};
  Reported<std::string> huge_pages{}, huge_pages_defrag{};
  bool operator==(const MemoryRecord&) const = default;
};
inline Description describe(Of<MemoryRecord>) {
  return fields(
      "machine_memory", "The memory of the host.",
      field("total", &MemoryRecord::total, "Bytes.").left_out_by_default(),
      field("available", &MemoryRecord::available, "Bytes that programs could get.").left_out_by_default(),
      field("swap_total", &MemoryRecord::swap_total, "Bytes of swap space.").left_out_by_default(),
      field("huge_pages", &MemoryRecord::huge_pages,
            "When the kernel uses transparent huge pages: `always`, `madvise` or `never`.")
          .left_out_by_default(),
      field("huge_pages_defrag", &MemoryRecord::huge_pages_defrag, "When the kernel makes room for them.")
          .left_out_by_default());
}

struct ControlGroupRecord {
  Reported<int> version{};
  Reported<double> cpu_quota{};
  Reported<std::int64_t> memory_limit{};
  bool operator==(const ControlGroupRecord&) const = default;
};
inline Description describe(Of<ControlGroupRecord>) {
  return fields(
      "machine_control_group",
      "The tightest limits of the control group of the program, and of the groups around it.",
      field("version", &ControlGroupRecord::version, "1 or 2; null if there is none.").left_out_by_default(),
      field("cpu_quota", &ControlGroupRecord::cpu_quota, "Cores; null: no limit.").left_out_by_default(),
      field("memory_limit", &ControlGroupRecord::memory_limit, "Bytes; null: no limit.")
          .left_out_by_default());
}

struct ClockRecord {
  Reported<std::string> source{}, name{};
  Reported<std::int64_t> resolution_ns{};
  Reported<double> cost_ns{};
  bool operator==(const ClockRecord&) const = default;
};
inline Description describe(Of<ClockRecord>) {
  return fields(
      "machine_clock", "The clock of the measurements.",
      field("source", &ClockRecord::source, "The kernel's clock source: `tsc`.").left_out_by_default(),
      field("name", &ClockRecord::name, "The clock that is read.").left_out_by_default(),
      field("resolution_ns", &ClockRecord::resolution_ns,
            "The smallest difference seen between two readings that differ.")
          .left_out_by_default(),
      field("cost_ns", &ClockRecord::cost_ns, "Median cost of one reading.").left_out_by_default());
}

struct NvmlRecord {
  Reported<std::string> driver{}, version{}, cuda{}, reason{};
  bool operator==(const NvmlRecord&) const = default;
};
inline Description describe(Of<NvmlRecord>) {
  return fields(
      "machine_nvml", "The library that reads the state of GPUs, and their driver.",
      field("driver", &NvmlRecord::driver, "Version of the driver.").left_out_by_default(),
      field("version", &NvmlRecord::version, "Version of the library.").left_out_by_default(),
      field("cuda", &NvmlRecord::cuda, "The newest CUDA that the driver supports.").left_out_by_default(),
      field("reason", &NvmlRecord::reason, "Why NVML cannot be used; absent if it can.")
          .left_out_by_default());
}

struct GpuProcessRecord {
  int pid = 0;
  Reported<std::string> name{};
  Reported<std::int64_t> memory{};
  bool operator==(const GpuProcessRecord&) const = default;
};
inline Description describe(Of<GpuProcessRecord>) {
  return fields("machine_gpu_process", "A process that used a GPU before the measurement.",
                field("pid", &GpuProcessRecord::pid, "Its number."),
                field("name", &GpuProcessRecord::name, "Its program.").left_out_by_default(),
                field("memory", &GpuProcessRecord::memory, "Bytes on the device.").left_out_by_default());
}

struct GpuRecord {
  Reported<unsigned> index{};
  Reported<std::string> model{}, uuid{}, bus{};
  Reported<std::int64_t> memory{};
  Reported<bool> mig{}, persistence{};
  Reported<std::string> compute_mode{};
  Reported<double> sm_clock_limit_hz{}, memory_clock_limit_hz{}, sm_application_clock_hz{};
  Reported<double> power_limit_watts{};
  Reported<std::vector<GpuProcessRecord>> processes{};
  Reported<std::map<std::string, std::string>> not_told{};
  bool operator==(const GpuRecord&) const = default;
};
inline Description describe(Of<GpuRecord>) {
  return fields(
      "machine_gpu", "A GPU. Without NVML, only its model and bus are known.",
      field("index", &GpuRecord::index, "Its number in NVML's order.").left_out_by_default(),
      field("model", &GpuRecord::model, "Its name.").left_out_by_default(),
      field("uuid", &GpuRecord::uuid, "`GPU-…`, `MIG-…`.").left_out_by_default(),
      field("bus", &GpuRecord::bus, "PCI address.").left_out_by_default(),
      field("memory", &GpuRecord::memory, "Bytes.").left_out_by_default(),
      field("mig", &GpuRecord::mig, "Whether it is divided into instances.").left_out_by_default(),
      field("persistence", &GpuRecord::persistence, "Whether its driver stays loaded.").left_out_by_default(),
      field("compute_mode", &GpuRecord::compute_mode, "`default`, `exclusive_process`.")
          .left_out_by_default(),
      field("sm_clock_limit_hz", &GpuRecord::sm_clock_limit_hz, "Maximum clock of its processors.")
          .left_out_by_default(),
      field("memory_clock_limit_hz", &GpuRecord::memory_clock_limit_hz, "Maximum clock of its memory.")
          .left_out_by_default(),
      field("sm_application_clock_hz", &GpuRecord::sm_application_clock_hz, "The application clock.")
          .left_out_by_default(),
      field("power_limit_watts", &GpuRecord::power_limit_watts, "Its power limit.").left_out_by_default(),
      field("processes", &GpuRecord::processes, "Processes that used it before the measurement.")
          .left_out_by_default(),
      field("not_told", &GpuRecord::not_told, "Why a field is null, by its name.").left_out_by_default());
}

struct UnsteadyCause {
  std::string what{}, remedy{};
  bool operator==(const UnsteadyCause&) const = default;
};
inline Description describe(Of<UnsteadyCause>) {
  return fields("machine_unsteady", "A property that makes numbers unsteady.",
                field("what", &UnsteadyCause::what, "What was observed."),
                field("remedy", &UnsteadyCause::remedy, "What to do."));
}

// A measurement of what the machine can do at most.
struct RooflineProbe {
  std::string cell{}, unit{}, reason{};
  double rate = 0;
  bool operator==(const RooflineProbe&) const = default;
};
inline Description describe(Of<RooflineProbe>) {
  return fields("roofline_probe", "A measurement of what the machine can do at most.",
                field("cell", &RooflineProbe::cell, "Id of the cell that was timed."),
                field("rate", &RooflineProbe::rate, "What it reached; 0 if it failed."),
                field("unit", &RooflineProbe::unit, "`FLOP/s` or `B/s`."),
                field("reason", &RooflineProbe::reason, "Why it failed; empty if it did not."));
}

struct MachineRecord {
  Reported<std::string> host{}, kernel{}, os{};
  ProcessorRecord cpu{};
  MemoryRecord memory{};
  Reported<bool> virtualised{};
  ControlGroupRecord control_group{};
  Reported<std::string> address_randomisation{}, scheduling{};
  Reported<std::vector<double>> load_average{};
  ClockRecord clock{};
  NvmlRecord nvml{};
  Reported<std::vector<GpuRecord>> gpus{};
  Reported<std::vector<UnsteadyCause>> unsteady{};
  // Only in reports, of what they measured.
  Reported<std::map<std::string, double>> peak_flops{}, copy_bandwidth{};
  Reported<std::vector<RooflineProbe>> roofline_probes{};
  bool operator==(const MachineRecord&) const = default;
};
inline Description describe(Of<MachineRecord>) {
  return fields(
      "machine",
      "The machine and its clocks, as `assay env --json` prints them. Null: the machine does not report the value. Absent: "
      "the report is older than the field.",
      field("host", &MachineRecord::host, "Its name.").left_out_by_default(),
      field("kernel", &MachineRecord::kernel, "Name and release of its kernel.").left_out_by_default(),
      field("os", &MachineRecord::os, "Name of the system.").left_out_by_default(),
      field("cpu", &MachineRecord::cpu, "The processor.").left_out_by_default(),
      field("memory", &MachineRecord::memory, "The memory of the host.").left_out_by_default(),
      field("virtualised", &MachineRecord::virtualised, "Whether a hypervisor shares it with others.")
          .left_out_by_default(),
      field("control_group", &MachineRecord::control_group, "The limits of a container or a user's slice.")
          .left_out_by_default(),
      field("address_randomisation", &MachineRecord::address_randomisation, "`full`, `partial` or `off`.")
          .left_out_by_default(),
      field("scheduling", &MachineRecord::scheduling,
            "`usual`, or what is unusual: `policy idle, nice 19, memory bound to nodes, no huge pages`.")
          .left_out_by_default(),
      field("load_average", &MachineRecord::load_average, "Over 1, 5 and 15 minutes.").left_out_by_default(),
      field("clock", &MachineRecord::clock, "The clock of the measurements.").left_out_by_default(),
      field("nvml", &MachineRecord::nvml, "The library that reads the state of GPUs.").left_out_by_default(),
      field("gpus", &MachineRecord::gpus, "The GPUs.").left_out_by_default(),
      field("unsteady", &MachineRecord::unsteady, "The properties that make numbers unsteady.")
          .left_out_by_default(),
      field(
          "peak_flops", &MachineRecord::peak_flops,
          "In a report: FLOP/s of the fastest matrix product, by device, precision and threads: `cpu/fp32/t2`.")
          .left_out_by_default(),
      field("copy_bandwidth", &MachineRecord::copy_bandwidth,
            "In a report: B/s of a copy that exceeds the caches, by device and threads: `cpu/t2`.")
          .left_out_by_default(),
      field("roofline_probes", &MachineRecord::roofline_probes, "In a report: what measured these two.")
          .left_out_by_default());
}

}  // namespace assay
