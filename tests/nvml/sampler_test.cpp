#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/machine/gpu_sampler.hpp"
#include "tests/nvml/script.hpp"

namespace assay {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The stand-in finds it as its "worker".
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ == 0)
      for (;;) ::pause();
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

json held(const json& pid, std::int64_t mebibytes) {
  return {{"pid", pid}, {"memory", mebibytes * mebibyte}};
}

class GpuSamplerTest : public ::testing::Test {
 protected:
  // Three looks before its steps, three during them and one after.
  GpuUse use_of(const json& gpu, const CudaVisibility& visible = {}) {
    const FakeNvml fake(scripted(json::array({gpu})));
    const Child child;
    const std::array worker{child.pid()};
    GpuSampler sampler(nvml_access(), visible);
    for (const GpuPhase phase : {GpuPhase::preparation, GpuPhase::preparation, GpuPhase::preparation,
                                 GpuPhase::steps, GpuPhase::steps, GpuPhase::steps, GpuPhase::afterwards})
      readings_.push_back(sampler.sample(worker, phase));
    return sampler.use();
  }
  std::vector<std::optional<GpuReading>> readings_;
};

TEST_F(GpuSamplerTest, distinguishes_the_worker_from_others) {
  json gpu = scripted_gpu();
  const json other = held(1, 100);
  gpu["processes"] = json::array({{{"list", json::array()}},
                                  {{"list", {other, held(2, 5)}}},
                                  {{"list", {held("worker", 300), other}}},
                                  {{"list", {held("worker", 400), other}}},
                                  {{"list", {held("worker", 350), held(1, 120)}}},
                                  {{"list", {held("worker", 350)}}},
                                  {{"list", {held("worker", 9000)}}}});
  const GpuUse use = use_of(gpu);
  EXPECT_EQ(use.reason, "");
  EXPECT_THAT(use.missing, IsEmpty());
  EXPECT_FALSE(readings_[1]->worker_memory) << "it is not there yet";
  EXPECT_EQ(readings_[2]->worker_memory, 300 * mebibyte);
  EXPECT_EQ(use.worker_peak, 400 * mebibyte) << "what it takes after its steps is not theirs";
  EXPECT_EQ(use.device_peak, 700 * mebibyte);
  ASSERT_THAT(use.foreign, SizeIs(1)) << "only during the steps";
  EXPECT_EQ(use.foreign[0].pid, 1);
  EXPECT_EQ(use.foreign[0].memory, 120 * mebibyte);
  EXPECT_FALSE(use.foreign[0].name.empty());
}

TEST_F(GpuSamplerTest, counts_failures_of_a_call_and_keeps_the_others) {
  json gpu = scripted_gpu();
  const json lost{{"error", 15}};
  gpu["utilisation"] = json::array({80, 80, 80, 80, lost, 70});
  gpu["processes"] =
      json::array({{{"list", {held("worker", 300)}}}, lost, {{"list", {held("worker", 300)}}}});
  gpu.erase("energy");
  const GpuUse use = use_of(gpu);
  EXPECT_EQ(readings_[3]->utilisation, 0.8);
  EXPECT_FALSE(readings_[4]->utilisation);
  EXPECT_EQ(readings_[5]->utilisation, 0.7);
  EXPECT_EQ(use.missing.at("gpu_utilisation"),
            "nvmlDeviceGetUtilizationRates: GPU is lost (15), in 1 of 6 looks");
  EXPECT_EQ(use.missing.at("gpu_energy_joules"), "nvmlDeviceGetTotalEnergyConsumption: Not Supported (3)");
  EXPECT_FALSE(use.worker_peak) << "the peak may have been there when nobody saw it";
  EXPECT_TRUE(use.device_peak);
}

TEST_F(GpuSamplerTest, process_ids_of_another_namespace_are_no_foreign_processes) {
  json gpu = scripted_gpu();
  gpu["processes"] = {{"list", {held(4'190'001, 300)}}};
  const GpuUse use = use_of(gpu);
  EXPECT_FALSE(use.worker_peak);
  EXPECT_THAT(use.missing.at("gpu_worker_memory"), HasSubstr("--pid=host"));
  EXPECT_THAT(use.foreign, IsEmpty()) << "it may be the worker itself";
}

TEST_F(GpuSamplerTest, a_worker_without_gpu_use_has_a_reason_for_no_memory) {
  json gpu = scripted_gpu();
  gpu["processes"] = {{"list", json::array()}};
  EXPECT_THAT(use_of(gpu).missing.at("gpu_worker_memory"), HasSubstr("never named the worker"));
}

TEST_F(GpuSamplerTest, looks_at_nothing_where_every_gpu_is_hidden) {
  const GpuUse use = use_of(scripted_gpu(), {.devices = "-1", .order = {}});
  EXPECT_THAT(use.reason, HasSubstr("CUDA_VISIBLE_DEVICES is \"-1\""));
  for (const auto& reading : readings_) EXPECT_FALSE(reading);
}

TEST(FirstCudaGpu, is_the_one_that_the_worker_calls_its_first) {
  const FakeNvml fake(
      scripted(json::array({scripted_gpu("GPU-0a"), scripted_gpu("GPU-1b"), scripted_gpu("MIG-2c")})));
  const Nvml nvml(fake.library());
  const auto uuid = [&](std::optional<std::string> devices, std::optional<std::string> order) {
    const NvmlResult<Gpu> gpu = first_cuda_gpu(nvml, {std::move(devices), std::move(order)});
    return gpu.value ? *gpu.value->uuid().value : gpu.reason;
  };
  EXPECT_EQ(uuid({}, "PCI_BUS_ID"), "GPU-0a");
  EXPECT_EQ(uuid("1,0", "PCI_BUS_ID"), "GPU-1b");
  EXPECT_EQ(uuid("GPU-1", {}), "GPU-1b");
  EXPECT_EQ(uuid("MIG-2c", {}), "MIG-2c");
  EXPECT_THAT(uuid("GPU-9", {}), HasSubstr("NVML has no such GPU"));
  EXPECT_THAT(uuid("", "PCI_BUS_ID"), HasSubstr("hides every GPU"));
  EXPECT_THAT(uuid("0", "FASTEST_FIRST"), HasSubstr("CUDA_DEVICE_ORDER=PCI_BUS_ID"));
  EXPECT_THAT(uuid("7", "PCI_BUS_ID"), HasSubstr("nvmlDeviceGetHandleByIndex_v2"));
}

TEST(FirstCudaGpu, IsAnInstanceOfAGpuThatIsDivided) {
  json divided = scripted_gpu("GPU-0a");
  divided["mig"] = 1;
  divided["instances"] = {nullptr, 1};
  json empty = scripted_gpu("GPU-2c");
  empty["mig"] = 1;
  const FakeNvml fake(scripted(json::array({divided, scripted_gpu("MIG-1b"), empty})));
  const Nvml nvml(fake.library());
  const NvmlResult<Gpu> first = first_cuda_gpu(nvml, {.devices = {}, .order = "PCI_BUS_ID"});
  ASSERT_TRUE(first.value) << first.reason;
  EXPECT_EQ(first.value->uuid().value, "MIG-1b");
  EXPECT_EQ(first.value->board().uuid().value, "GPU-0a");
  EXPECT_EQ(first.value->board().board().uuid().value, "GPU-0a");
  const NvmlResult<Gpu> none = first_cuda_gpu(nvml, {.devices = "2", .order = "PCI_BUS_ID"});
  EXPECT_FALSE(none.value);
  EXPECT_THAT(none.reason, HasSubstr("has no instance"));
}

TEST(VisibleGpus, are_those_that_the_variable_names) {
  using ::testing::ElementsAre;
  EXPECT_THAT(visible_gpus({}, 3), ElementsAre("0", "1", "2"));
  EXPECT_THAT(visible_gpus("2,GPU-0a", 3), ElementsAre("2", "GPU-0a"));
  EXPECT_THAT(visible_gpus("1,-1,2", 3), ElementsAre("1")) << "CUDA hides what comes after -1";
  EXPECT_THAT(visible_gpus("", 3), IsEmpty());
}

}  // namespace
}  // namespace assay
