#include "harness/machine/nvml.hpp"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/json/encode.hpp"
#include "harness/machine/environment.hpp"
#include "harness/machine/hardware_info.hpp"
#include "tests/nvml/script.hpp"

namespace assay {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Nvml, reports_a_gpu_and_its_state_with_units) {
  const FakeNvml fake(scripted(json::array({scripted_gpu()})));
  const Nvml nvml(fake.library());
  EXPECT_EQ(nvml.driver().value, "550.54.15");
  EXPECT_EQ(nvml.cuda().value, "12.4");
  ASSERT_EQ(nvml.count().value, 1U);
  const Gpu gpu = *nvml.gpu(0).value;
  EXPECT_EQ(gpu.model().value, "A Card 9000");
  EXPECT_EQ(gpu.bus().value, "00000000:65:00.0");
  EXPECT_EQ(gpu.mig().value, false);
  EXPECT_EQ(gpu.compute_mode().value, "exclusive_process");
  EXPECT_EQ(gpu.utilisation().value, 0.8);
  EXPECT_EQ(gpu.memory().value->total, 80'000 * mebibyte);
  EXPECT_EQ(gpu.memory().value->used, 700 * mebibyte);
  EXPECT_EQ(gpu.sm_clock().value, 1980e6);
  EXPECT_EQ(gpu.memory_clock().value, 2619e6);
  EXPECT_EQ(gpu.power().value, 251.0);
  EXPECT_EQ(gpu.temperature().value, 41.0);
  EXPECT_THAT(*gpu.throttle_reasons().value, IsEmpty()) << "idle is not a reason";
}

TEST(Nvml, a_call_that_is_not_supported_gives_nothing_and_says_which) {
  json gpu = scripted_gpu();
  gpu["energy"] = {{"error", 3}};
  gpu["throttle"] = 0x4 | 0x40;
  const FakeNvml fake(scripted(json::array({gpu})));
  const Nvml nvml(fake.library());
  const NvmlResult<double> energy = nvml.gpu(0).value->energy();
  EXPECT_FALSE(energy.value);
  EXPECT_EQ(energy.reason, "nvmlDeviceGetTotalEnergyConsumption: Not Supported (3)");
  EXPECT_THAT(*nvml.gpu(0).value->throttle_reasons().value,
              ElementsAre("sw_power_cap", "hw_thermal_slowdown"));
}

// The struct has 16, 24 or 32 bytes.
TEST(Nvml, processes_are_read_from_the_library_of_every_driver) {
  json gpu = scripted_gpu();
  json all = json::array();
  for (int i = 0; i < 70; ++i) all.push_back({{"pid", 1000 + i}, {"memory", i * mebibyte}});
  all[1]["memory"] = nullptr;
  gpu["processes"] = {{"list", all}};
  for (const char* name : {"fake_nvml", "fake_nvml_535", "fake_nvml_440"}) {
    const FakeNvml fake(scripted(json::array({gpu})), name);
    const Nvml nvml(fake.library());
    const auto found = nvml.gpu(0).value->compute_processes();
    ASSERT_TRUE(found.value) << name << ": " << found.reason;
    ASSERT_EQ(found.value->size(), 70U) << name << ": more than the first guess";
    EXPECT_EQ(found.value->at(0).memory, 0) << name;
    EXPECT_FALSE(found.value->at(1).memory) << name << ": NVML does not tell";
    EXPECT_EQ(found.value->at(69).pid, 1069) << name;
    EXPECT_EQ(found.value->at(69).memory, 69 * mebibyte) << name;
    EXPECT_EQ(nvml.gpu(0).value->memory().value->used, 700 * mebibyte) << name;
  }
}

TEST(Nvml, an_old_library_says_which_function_it_lacks) {
  const FakeNvml fake(scripted(json::array({scripted_gpu()})), "fake_nvml_440");
  const Nvml nvml(fake.library());
  EXPECT_THAT(nvml.gpu(0).value->energy().reason, HasSubstr("has no nvmlDeviceGetTotalEnergyConsumption"));
  EXPECT_TRUE(nvml.gpu(0).value->throttle_reasons().value) << "by the function's former name";
}

std::string refusal(const std::function<void()>& open) {
  try {
    open();
  } catch (const NvmlError& error) {
    return error.what();
  }
  return "it was opened";
}

TEST(Nvml, has_a_reason_and_a_remedy_if_it_cannot_be_used) {
  EXPECT_THAT(refusal([] { Nvml("libnvidia-ml-that-is-not-there.so.1"); }),
              AllOf(HasSubstr("libnvidia-ml-that-is-not-there.so.1"), HasSubstr("NVIDIA's driver"),
                    HasSubstr("ASSAY_NVML")));
  EXPECT_THAT(refusal([] { Nvml("libm.so.6"); }), HasSubstr("it is not NVML"));
  const FakeNvml mismatch(json{{"init", 18}});
  EXPECT_THAT(refusal([&] { Nvml(mismatch.library()); }),
              AllOf(HasSubstr("nvmlInit_v2: Driver/library version mismatch (18)"), HasSubstr("reboot")));
  const FakeNvml not_loaded(json{{"init", 9}});
  EXPECT_THAT(refusal([&] { Nvml(not_loaded.library()); }),
              AllOf(HasSubstr("Driver Not Loaded (9)"), HasSubstr("modprobe")));
}

TEST(GpuInfo, is_in_the_environment_with_causes_of_noise) {
  json second = scripted_gpu("GPU-0b");
  second["persistence"] = 1;
  second["mig"] = {{"error", 3}};
  second["processes"] = {{"list", json::array()}};
  const FakeNvml fake(scripted(json::array({scripted_gpu(), second})));
  const json told = encode(environment());
  EXPECT_EQ(told["nvml"]["driver"], "550.54.15");
  EXPECT_FALSE(told["nvml"].contains("reason"));
  ASSERT_EQ(told["gpus"].size(), 2U);
  const json& gpu = told["gpus"][0];
  EXPECT_EQ(gpu["model"], "A Card 9000");
  EXPECT_EQ(gpu["uuid"], "GPU-0a");
  EXPECT_EQ(gpu["memory"], 80'000 * mebibyte);
  EXPECT_EQ(gpu["persistence"], false);
  EXPECT_EQ(gpu["sm_clock_limit_hz"], 1980e6);
  EXPECT_EQ(gpu["power_limit_watts"], 700.0);
  EXPECT_EQ(gpu["not_told"], json::object());
  EXPECT_TRUE(told["gpus"][1]["mig"].is_null());
  EXPECT_EQ(told["gpus"][1]["not_told"]["mig"], "nvmlDeviceGetMigMode: Not Supported (3)");
  std::string causes;
  for (const json& cause : told["unsteady"]) causes += cause["what"].get<std::string>() + "\n";
  EXPECT_THAT(causes, AllOf(HasSubstr("GPU 0: persistence mode is off"),
                            HasSubstr("processes were on it before the measurement: 2")));
  EXPECT_THAT(causes, ::testing::Not(HasSubstr("GPU 1")));
}

TEST(GpuInfo, reports_why_nvml_is_missing) {
  ::setenv("ASSAY_NVML", "/nowhere/libnvidia-ml.so.1", 1);
  const json told = encode(environment());
  ::unsetenv("ASSAY_NVML");
  EXPECT_TRUE(told["nvml"]["driver"].is_null());
  EXPECT_THAT(told["nvml"]["reason"].get<std::string>(), HasSubstr("/nowhere/libnvidia-ml.so.1"));
  EXPECT_TRUE(told["gpus"].is_array());
}

}  // namespace
}  // namespace assay
