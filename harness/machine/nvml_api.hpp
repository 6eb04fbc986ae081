// The part of NVML's C interface that is used here, declared again, so that the program builds without the
// vendor's header and runs without its library. Source: NVML API Reference Guide,
// https://docs.nvidia.com/deploy/nvml-api (structs and functions by the names below).
#pragma once

namespace assay::nvml {

using Return = int;  // nvmlReturn_t
inline constexpr Return success = 0;
inline constexpr Return not_supported = 3;
inline constexpr Return insufficient_size = 7;
inline constexpr Return driver_not_loaded = 9;
inline constexpr Return version_mismatch = 18;  // NVML_ERROR_LIB_RM_VERSION_MISMATCH

using Device = struct nvmlDevice_st*;  // nvmlDevice_t

struct Utilization {  // nvmlUtilization_t: percent
  unsigned gpu, memory;
};

struct Memory {  // nvmlMemory_t: bytes; `used` includes the driver's reserve
  unsigned long long total, free, used;
};

struct MemoryV2 {  // nvmlMemory_v2_t: bytes; `used` is allocated memory only
  unsigned version;
  unsigned long long total, reserved, free, used;
};
static_assert(sizeof(MemoryV2) == 40);
inline constexpr unsigned memory_v2 = sizeof(MemoryV2) | 2U << 24;

struct ProcessV1 {  // nvmlProcessInfo_v1_t
  unsigned pid;
  unsigned long long memory;  // bytes, or not_available
};
static_assert(sizeof(ProcessV1) == 16);

struct ProcessV2 {  // nvmlProcessInfo_v2_t
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessV2) == 24);

// The layout that functions of version 3 used in the drivers 535.43 to 535.86; before and after that it is
// ProcessV2 (github.com/XuehaiPan/nvitop/pull/89).
struct ProcessV3 {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
  unsigned long long protected_memory;
};
static_assert(sizeof(ProcessV3) == 32);

inline constexpr unsigned long long not_available = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE

struct PciInfo {  // nvmlPciInfo_t
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

enum class Clock : int { sm = 1, memory = 2 };  // nvmlClockType_t
inline constexpr int die_temperature = 0;       // NVML_TEMPERATURE_GPU
inline constexpr unsigned text_bytes = 96;      // large enough for every name and version

// Every function that is looked up; functions that a library lacks stay null.
#define ASSAY_NVML_FUNCTIONS(X)                                            \
  X(nvmlInit_v2, ())                                                       \
  X(nvmlShutdown, ())                                                      \
  X(nvmlSystemGetDriverVersion, (char*, unsigned))                         \
  X(nvmlSystemGetNVMLVersion, (char*, unsigned))                           \
  X(nvmlSystemGetCudaDriverVersion, (int*))                                \
  X(nvmlDeviceGetCount_v2, (unsigned*))                                    \
  X(nvmlDeviceGetHandleByIndex_v2, (unsigned, Device*))                    \
  X(nvmlDeviceGetHandleByUUID, (const char*, Device*))                     \
  X(nvmlDeviceGetName, (Device, char*, unsigned))                          \
  X(nvmlDeviceGetUUID, (Device, char*, unsigned))                          \
  X(nvmlDeviceGetPciInfo_v3, (Device, PciInfo*))                           \
  X(nvmlDeviceGetMigMode, (Device, unsigned*, unsigned*))                  \
  X(nvmlDeviceGetMaxMigDeviceCount, (Device, unsigned*))                   \
  X(nvmlDeviceGetMigDeviceHandleByIndex, (Device, unsigned, Device*))      \
  X(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (Device, Device*))       \
  X(nvmlDeviceGetPersistenceMode, (Device, int*))                          \
  X(nvmlDeviceGetComputeMode, (Device, int*))                              \
  X(nvmlDeviceGetMaxClockInfo, (Device, Clock, unsigned*))                 \
  X(nvmlDeviceGetApplicationsClock, (Device, Clock, unsigned*))            \
  X(nvmlDeviceGetEnforcedPowerLimit, (Device, unsigned*))                  \
  X(nvmlDeviceGetUtilizationRates, (Device, Utilization*))                 \
  X(nvmlDeviceGetMemoryInfo, (Device, Memory*))                            \
  X(nvmlDeviceGetMemoryInfo_v2, (Device, MemoryV2*))                       \
  X(nvmlDeviceGetComputeRunningProcesses, (Device, unsigned*, void*))      \
  X(nvmlDeviceGetComputeRunningProcesses_v2, (Device, unsigned*, void*))   \
  X(nvmlDeviceGetComputeRunningProcesses_v3, (Device, unsigned*, void*))   \
  X(nvmlDeviceGetGraphicsRunningProcesses, (Device, unsigned*, void*))     \
  X(nvmlDeviceGetGraphicsRunningProcesses_v2, (Device, unsigned*, void*))  \
  X(nvmlDeviceGetGraphicsRunningProcesses_v3, (Device, unsigned*, void*))  \
  X(nvmlDeviceGetClockInfo, (Device, Clock, unsigned*))                    \
  X(nvmlDeviceGetPowerUsage, (Device, unsigned*))                          \
  X(nvmlDeviceGetTotalEnergyConsumption, (Device, unsigned long long*))    \
  X(nvmlDeviceGetTemperature, (Device, int, unsigned*))                    \
  X(nvmlDeviceGetCurrentClocksEventReasons, (Device, unsigned long long*)) \
  X(nvmlDeviceGetCurrentClocksThrottleReasons, (Device, unsigned long long*))

struct Functions {
#define ASSAY_NVML_MEMBER(name, arguments) Return(*name) arguments = nullptr;
  ASSAY_NVML_FUNCTIONS(ASSAY_NVML_MEMBER)
#undef ASSAY_NVML_MEMBER
  const char* (*nvmlErrorString)(Return) = nullptr;
};

}  // namespace assay::nvml
