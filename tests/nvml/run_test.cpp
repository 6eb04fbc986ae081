// Whole runs with a worker that claims a GPU, and a replacement of NVML.
#include "harness/conductor/run/run.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/core/json/strict_json.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/report_json.hpp"
#include "tests/nvml/script.hpp"

namespace assay {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
namespace fs = std::filesystem;

constexpr const char* gpu_metrics[] = {"device_peak_memory", "device_peak_used", "gpu_utilisation",
                                       "gpu_power", "energy"};

class GpuRun : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("ASSAY_CACHE", (folder_ / "cache").c_str(), 1);
    registry_ = find_backends_in({FAULT_BACKENDS}, {});
  }

  CellReport measured(const std::string& settings = R"("device": "cuda", "mode": "sleeps")",
                      Status expected = Status::ok) {
    RunRequest request;
    request.config = config_from_json(
        json::parse(
            R"({"workload": "mlp", "dataset": "synthetic", "backend": "fault", "threads": 1, "forks": 1,
      "check": false, "blocks": 3, )" +
            settings + "}"),
        "test.json");
    request.out = folder_ / "report.json";
    Progress progress = Progress::quiet();
    const Report report = run(request, cells_of(request, registries_), registries_, progress).report;
    EXPECT_THAT(invariant_violations(report), IsEmpty());
    std::vector<std::string> violations;
    report_from(read_strict_json(request.out), request.out.string(), true, violations);
    EXPECT_THAT(violations, IsEmpty());
    EXPECT_EQ(report_text(read_report(request.out)), report_text(report));
    EXPECT_EQ(report.cells.at(0).status, expected) << report.cells[0].reason;
    return report.cells.at(0);
  }

  TemporaryFolder folder_;
  Registries registries_;
  BackendRegistry& registry_ = registries_.backends;
};

double value_of(const CellReport& cell, const char* metric) {
  const Metric& found = cell.metrics.at(metric);
  EXPECT_TRUE(found.value) << metric << ": " << found.reason;
  return found.value.value_or(-1);
}

TEST_F(GpuRun, a_cell_on_cuda_has_the_metrics_of_its_gpu) {
  const FakeNvml fake(scripted(json::array({scripted_gpu()})));
  const CellReport cell = measured();
  EXPECT_DOUBLE_EQ(value_of(cell, "gpu_utilisation"), 0.8);
  EXPECT_DOUBLE_EQ(value_of(cell, "device_peak_memory"), 500.0 * mebibyte);
  EXPECT_DOUBLE_EQ(value_of(cell, "device_peak_used"), 700.0 * mebibyte);
  EXPECT_NEAR(value_of(cell, "gpu_power"), 250, 10);
  // A step sleeps for 10 ms.
  EXPECT_NEAR(value_of(cell, "energy"), 250 * value_of(cell, "step_time"), 0.15);
  const Fork& fork = cell.forks.at(0);
  EXPECT_EQ(fork.gpu->model, "A Card 9000");
  EXPECT_EQ(fork.gpu->uuid, "GPU-0a");
  EXPECT_THAT(fork.gpu->missing, IsEmpty());
  ASSERT_GT(fork.samples.size(), 6U);
  EXPECT_EQ(fork.samples.back().gpu->temperature_celsius, 41.0);
  EXPECT_LE(fork.samples.front().time_ns, fork.blocks.front().begin_ns) << "a look at both ends";
  EXPECT_GE(fork.samples.back().time_ns, fork.blocks.back().end_ns);
  ASSERT_EQ(fork.gpu->foreign.size(), 1U);
  EXPECT_THAT(fork.warnings, ElementsAre(AllOf(HasSubstr("process 1 ("), HasSubstr("100 MiB"))));
}

TEST_F(GpuRun, warns_of_clocks_and_power_cap_and_flags_heat) {
  json gpu = scripted_gpu();
  gpu["processes"]["list"].erase(1);
  gpu["sm_clock"] = json::array({1980, 1980, 1980, 1980, 1500, 1980});
  gpu["throttle"] = 0x4 | 0x40;
  const FakeNvml fake(scripted(json::array({gpu})));
  const Fork fork = measured().forks.at(0);
  EXPECT_THAT(fork.flags, Contains("throttled"));
  EXPECT_THAT(fork.warnings, ElementsAre(AllOf(HasSubstr("1500 to 1980 MHz"), HasSubstr("not locked")),
                                         HasSubstr("power limit")));
}

TEST_F(GpuRun, unsupported_metrics_are_null_with_that_reason) {
  json gpu = scripted_gpu();
  gpu.erase("energy");
  gpu.erase("utilisation");
  const FakeNvml fake(scripted(json::array({gpu})));
  const CellReport cell = measured();
  EXPECT_EQ(cell.metrics.at("gpu_utilisation").reason, "nvmlDeviceGetUtilizationRates: Not Supported (3)");
  for (const char* metric : {"energy", "gpu_power"})
    EXPECT_EQ(cell.metrics.at(metric).reason, "nvmlDeviceGetTotalEnergyConsumption: Not Supported (3)");
  EXPECT_DOUBLE_EQ(value_of(cell, "device_peak_memory"), 500.0 * mebibyte);
}

TEST_F(GpuRun, a_gpu_lost_during_steps_gives_nulls_with_a_reason) {
  const json lost{{"error", 15}};
  json gpu = scripted_gpu();
  for (const char* field : {"utilisation", "energy", "used", "processes"}) {
    const json value = gpu[field];
    gpu[field] = json::array({value, value, value, value, lost});
  }
  const FakeNvml fake(scripted(json::array({gpu})));
  const CellReport cell = measured();
  for (const char* metric : gpu_metrics) {
    EXPECT_FALSE(cell.metrics.at(metric).value) << metric;
    EXPECT_THAT(cell.metrics.at(metric).reason, AllOf(HasSubstr("GPU is lost (15)"), HasSubstr("looks")))
        << metric;
  }
}

TEST_F(GpuRun, without_nvml_each_metric_says_why) {
  ::setenv("ASSAY_NVML", "/nowhere/libnvidia-ml.so.1", 1);
  const CellReport cell = measured();
  ::unsetenv("ASSAY_NVML");
  for (const char* metric : gpu_metrics)
    EXPECT_THAT(cell.metrics.at(metric).reason, HasSubstr("/nowhere/libnvidia-ml.so.1")) << metric;
  EXPECT_FALSE(cell.forks.at(0).samples.front().gpu);
  EXPECT_THAT(cell.forks[0].warnings, IsEmpty());
}

TEST_F(GpuRun, a_library_of_another_version_than_the_driver_is_named) {
  const FakeNvml fake(json{{"init", 18}});
  EXPECT_THAT(measured().metrics.at("energy").reason,
              AllOf(HasSubstr("version mismatch"), HasSubstr("reboot")));
}

TEST_F(GpuRun, steps_that_are_too_short_have_a_peak_and_no_mean) {
  const FakeNvml fake(scripted(json::array({scripted_gpu()})));
  const CellReport cell = measured(R"("device": "cuda", "mode": "good")");
  EXPECT_THAT(cell.metrics.at("gpu_utilisation").reason, HasSubstr("too short"));
  EXPECT_THAT(cell.metrics.at("energy").reason, HasSubstr("too short"));
  EXPECT_DOUBLE_EQ(value_of(cell, "device_peak_used"), 700.0 * mebibyte);
}

TEST_F(GpuRun, reports_gpu_memory_if_a_worker_runs_out_of_it) {
  const FakeNvml fake(scripted(json::array({scripted_gpu()})));
  const CellReport cell = measured(R"("device": "cuda", "mode": "out_of_memory")", Status::out_of_memory);
  EXPECT_THAT(cell.reason,
              AllOf(HasSubstr("the device has 2 GiB"),
                    HasSubstr("of 80000 MiB on the GPU the worker held 500 at most, and 79300 were free "
                              "at least")));
}

TEST_F(GpuRun, a_cell_on_the_processor_is_not_sampled) {
  const FakeNvml fake(scripted(json::array({scripted_gpu()})));
  const CellReport cell = measured(R"("device": "cpu", "mode": "sleeps")");
  EXPECT_FALSE(cell.forks.at(0).gpu);
  EXPECT_FALSE(cell.forks[0].samples.front().gpu);
  for (const char* metric : gpu_metrics)
    EXPECT_EQ(cell.metrics.at(metric).reason, "the cell runs on the CPU");
}

// So that a fork of a cold cache compiles everything, the driver included.
TEST_F(GpuRun, TheDriverCachesInTheFoldersOfAForkOnCuda) {
  const FakeNvml fake(scripted(json::array({scripted_gpu()})));
  ::unsetenv("CUDA_CACHE_PATH");
  const auto variables = [this](const char* device) {
    return measured(std::string(R"("mode": "good", "device": ")") + device + '"').forks.at(0).variables;
  };
  const auto on_gpu = variables("cuda");
  ASSERT_TRUE(on_gpu.contains("CUDA_CACHE_PATH"));
  EXPECT_THAT(on_gpu.at("CUDA_CACHE_PATH"), EndsWith("/cache/cuda"));
  EXPECT_FALSE(variables("cpu").contains("CUDA_CACHE_PATH"));
}

// The program as a person calls it.
TEST_F(GpuRun, the_program_reports_the_gpu_and_its_warnings) {
  const FakeNvml fake(scripted(json::array({scripted_gpu()})));
  ::setenv("ASSAY_BACKENDS", FAULT_BACKENDS, 1);
  const fs::path report = folder_ / "whole.json", said = folder_ / "said";
  const auto assay = [&](const std::string& arguments) {
    const int status =
        std::system((std::string(ASSAY_PROGRAM) + " " + arguments + " >>" + said.string() + " 2>&1").c_str());
    std::ifstream text(said);
    EXPECT_EQ(WEXITSTATUS(status), 0) << std::string(std::istreambuf_iterator<char>(text), {});
  };
  assay(
      "run --workload mlp --dataset synthetic --backend fault --device cuda --mode sleeps --blocks 3 --threads 1 "
      "--forks 1 --check=false --out " +
      report.string());
  assay("validate " + report.string());
  assay("show " + report.string());
  assay("env");
  ::unsetenv("ASSAY_BACKENDS");
  const Report read = read_report(report);
  EXPECT_EQ(*read.environment.gpus->at(0).model, "A Card 9000");
  EXPECT_EQ(*read.environment.nvml.driver, "550.54.15");
  EXPECT_DOUBLE_EQ(value_of(read.cells.at(0), "gpu_utilisation"), 0.8);
  std::ifstream file(said);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(text, AllOf(HasSubstr("GPU memory"), HasSubstr("warning (1 of 1 forks): process 1"),
                          HasSubstr("A Card 9000")));
}

}  // namespace
}  // namespace assay
