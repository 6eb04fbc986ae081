// Forks with one seed and one thread count end in the same bits; another seed does not.
#include <unistd.h>

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/run/run.hpp"

namespace assay {
namespace {

class BitsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("assay_bits_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    ::setenv("ASSAY_CACHE", folder_.c_str(), 1);
    registry_ = find_backends_in({ASSAY_BUILT_BACKENDS}, {});
    const BackendDescription* backend = registry_.find(GetParam());
    if (!backend || !backend->available()) GTEST_SKIP() << GetParam() << " was not built";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Digest of the final state after exactly 25 steps.
  std::string digest(const std::string& mode, int seed) {
    nlohmann::json config = {{"workload", "lenet5"},
                             {"batch", 16},
                             {"dataset", "synthetic"},
                             {"backend", GetParam()},
                             {"mode", mode},
                             {"threads", 2},
                             {"check", false},
                             {"forks", 1},
                             {"steps", 20},
                             {"warm-up-steps", 5},
                             {"warm-up-seconds", 0},
                             {"seed", seed},
                             // Spinning next to other tests would take minutes.
                             {"environment", "OMP_WAIT_POLICY=passive"}};
    RunRequest request;
    request.config = config_from_json(config, "bits");
    Progress progress = Progress::quiet();
    const CellReport cell =
        run(request, cells_of(request, registries_), registries_, progress).report.cells.at(0);
    EXPECT_EQ(cell.status, Status::ok) << cell.reason;
    return cell.forks.at(0).parameters_digest;
  }

  std::filesystem::path folder_;
  Registries registries_;
  BackendRegistry& registry_ = registries_.backends;
};

TEST_P(BitsTest, two_forks_of_a_seed_end_in_the_same_bits) {
  for (const std::string& mode : registry_.find(GetParam())->modes) {
    const std::string first = digest(mode, 3);
    EXPECT_EQ(first.size(), 64U) << mode;
    EXPECT_EQ(first, digest(mode, 3)) << mode;
    EXPECT_NE(first, digest(mode, 4)) << mode;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, BitsTest, ::testing::Values("reference", "onednn"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace assay
