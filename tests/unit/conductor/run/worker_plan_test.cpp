#include "harness/conductor/run/worker_plan.hpp"

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/run/cell_folder.hpp"
#include "harness/conductor/run/exams.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

// The CUDA_VISIBLE_DEVICES of the worker of a rank, if the conductor's is `devices`; null: it is not set.
std::string gpu_of(int rank, int world, const char* devices) {
  const TemporaryFolder folder;
  ::setenv("ASSAY_CACHE", (folder.path() / "cache").c_str(), 1);
  if (devices != nullptr) {
    ::setenv("CUDA_VISIBLE_DEVICES", devices, 1);
  } else {
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
  BackendDescription backend;
  Cell cell;
  cell.backend = &backend;
  cell.axes.device = DeviceKind::cuda;
  const BackendRegistry registry;
  const RunSettings settings;
  DatasetShelf data(std::vector<fs::path>{});
  Exams exams(folder.path() / "exams");
  const ForkContext context{folder.path(), registry, settings, data, exams};
  const ConversationPlan plan =
      plan_for(cell, backend, folder.path() / "cell", {}, context, {rank, world, "127.0.0.1:29400"});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ::unsetenv("ASSAY_CACHE");
  const auto found = plan.worker.environment.find("CUDA_VISIBLE_DEVICES");
  const std::string name = found != plan.worker.environment.end() ? found->second : "not set";
  EXPECT_EQ(plan.cuda->devices.value_or("not set"), devices != nullptr && world == 1 ? devices : name)
      << "the sampled GPU is the worker's";
  return name;
}

TEST(WorkerPlan, GivesEachRankAGpuOfItsOwn) {
  EXPECT_EQ(gpu_of(0, 2, nullptr), "0");
  EXPECT_EQ(gpu_of(1, 2, nullptr), "1");
  EXPECT_EQ(gpu_of(1, 2, "5,GPU-7"), "GPU-7");
  EXPECT_EQ(gpu_of(1, 2, "5"), "-1") << "none is left";
  EXPECT_EQ(gpu_of(0, 1, nullptr), "not set");
  EXPECT_EQ(gpu_of(0, 1, "5,7"), "not set") << "it inherits the conductor's";
}

}  // namespace
}  // namespace assay
