// NVML's interface as it is declared again in nvml_api.hpp, against the vendor's header.
#define NVML_NO_UNVERSIONED_FUNC_DEFS  // declares the older functions under their own names, too
#include <gtest/gtest.h>
#include <nvml.h>

#include <cstddef>
#include <type_traits>

#include "harness/machine/nvml_api.hpp"

namespace assay::nvml {
namespace {

// Whether two parameters are passed in the same way, and point to as many bytes. Ours are void where several
// layouts are tried.
template <typename Ours, typename Theirs>
constexpr bool passed_alike() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using Us = std::remove_pointer_t<Ours>;
    using Them = std::remove_pointer_t<Theirs>;
    if constexpr (std::is_void_v<Us> || std::is_same_v<Us, nvmlDevice_st>)
      return true;
    else if constexpr (std::is_pointer_v<Us>)
      return std::is_pointer_v<Them>;
    else
      return sizeof(Us) == sizeof(Them) && alignof(Us) == alignof(Them);
  } else {
    return std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs);
  }
}

template <typename... Ours, typename... Theirs>
constexpr bool called_alike(Return (*)(Ours...), nvmlReturn_t (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
    return (passed_alike<Ours, Theirs>() && ...);
  } else {
    return false;
  }
}

TEST(NvmlHeader, DeclaresEachFunctionAsItIsCalled){
#define ASSAY_CHECK(name, arguments)                                                                    \
  EXPECT_TRUE(                                                                                          \
      called_alike(static_cast<Return(*) arguments>(nullptr), static_cast<decltype(&::name)>(nullptr))) \
      << #name;
    ASSAY_NVML_FUNCTIONS(ASSAY_CHECK)
#undef ASSAY_CHECK
}

TEST(NvmlHeader, HasTheSameCodes) {
  EXPECT_EQ(success, NVML_SUCCESS);
  EXPECT_EQ(not_supported, NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(insufficient_size, NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(driver_not_loaded, NVML_ERROR_DRIVER_NOT_LOADED);
  EXPECT_EQ(version_mismatch, NVML_ERROR_LIB_RM_VERSION_MISMATCH);
  EXPECT_EQ(static_cast<int>(Clock::sm), NVML_CLOCK_SM);
  EXPECT_EQ(static_cast<int>(Clock::memory), NVML_CLOCK_MEM);
  EXPECT_EQ(die_temperature, NVML_TEMPERATURE_GPU);
  EXPECT_GE(text_bytes, unsigned{NVML_DEVICE_NAME_V2_BUFFER_SIZE});
  EXPECT_GE(text_bytes, unsigned{NVML_DEVICE_UUID_V2_BUFFER_SIZE});
  EXPECT_GE(text_bytes, unsigned{NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE});
  EXPECT_EQ(not_available, static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE));
}

TEST(NvmlHeader, LaysOutEachStructTheSame) {
  EXPECT_EQ(memory_v2, unsigned{nvmlMemory_v2});
  EXPECT_EQ(offsetof(MemoryV2, total), offsetof(nvmlMemory_v2_t, total));
  EXPECT_EQ(offsetof(MemoryV2, reserved), offsetof(nvmlMemory_v2_t, reserved));
  EXPECT_EQ(offsetof(MemoryV2, free), offsetof(nvmlMemory_v2_t, free));
  EXPECT_EQ(offsetof(MemoryV2, used), offsetof(nvmlMemory_v2_t, used));
  EXPECT_EQ(offsetof(Memory, used), offsetof(nvmlMemory_t, used));
  EXPECT_EQ(offsetof(Utilization, memory), offsetof(nvmlUtilization_t, memory));
  EXPECT_EQ(sizeof(ProcessV1), sizeof(nvmlProcessInfo_v1_t));
  EXPECT_EQ(offsetof(ProcessV1, memory), offsetof(nvmlProcessInfo_v1_t, usedGpuMemory));
  EXPECT_EQ(sizeof(ProcessV2), sizeof(nvmlProcessInfo_v2_t));
  EXPECT_EQ(offsetof(ProcessV2, memory), offsetof(nvmlProcessInfo_v2_t, usedGpuMemory));
  EXPECT_EQ(offsetof(ProcessV2, gpu_instance), offsetof(nvmlProcessInfo_v2_t, gpuInstanceId));
  EXPECT_EQ(sizeof(nvmlProcessInfo_t), sizeof(ProcessV2)) << "the list of version 3";
  EXPECT_EQ(offsetof(PciInfo, domain), offsetof(nvmlPciInfo_t, domain));
  EXPECT_EQ(offsetof(PciInfo, subsystem_id), offsetof(nvmlPciInfo_t, pciSubSystemId));
  EXPECT_EQ(offsetof(PciInfo, bus_id), offsetof(nvmlPciInfo_t, busId));
}

}  // namespace
}  // namespace assay::nvml
