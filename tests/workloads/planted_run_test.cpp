// Whole runs, with real processes: what is wrong is a wrong_result with its reason, and has no time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "harness/conductor/run/run.hpp"
#include "harness/report/invariants.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using ::testing::IsEmpty;

class PlantedRun : public ::testing::Test {
 protected:
  PlantedRun() {
    ::setenv("ASSAY_CACHE", (folder_.path() / "cache").c_str(), 1);
    registry_ = find_backends_in({PLANTED_BACKENDS, ASSAY_BUILT_BACKENDS}, {});
  }
  Report report_of(const std::string& settings) {
    RunRequest request;
    const std::string measure =
        settings.find("epochs") == settings.npos ? R"("steps": 20, "warm-up-seconds": 0, )" : "";
    request.config = config_from_json(
        nlohmann::json::parse(
            R"({"workload": "mlp", "dataset": "synthetic", "backend": "planted", "threads": 1,
                                  "batch": 24, "forks": 1, )" +
            measure + settings + "}"),
        "test.json");
    request.out = folder_.path() / "report.json";
    Progress progress = Progress::quiet();
    Report report = run(request, cells_of(request, registries_), registries_, progress).report;
    EXPECT_THAT(invariant_violations(report), IsEmpty());
    return report;
  }

  TemporaryFolder folder_;
  Registries registries_;
  BackendRegistry& registry_ = registries_.backends;
};

bool has_a_time(const CellReport& cell) {
  const auto found = cell.metrics.find("step_time");
  return found != cell.metrics.end() && found->second.value.has_value();
}

TEST_F(PlantedRun, times_the_honest_mode) {
  const Report report = report_of(R"("mode": "honest")");
  const CellReport& cell = report.cells.at(0);
  EXPECT_EQ(cell.status, Status::ok) << cell.reason;
  EXPECT_TRUE(has_a_time(cell));
  EXPECT_TRUE(cell.equivalence.checked && cell.equivalence.passed);
  EXPECT_LE(cell.equivalence.worst, 0.5);
  EXPECT_GT(cell.equivalence.tensors.size(), 20u) << "all tensors are in the report";
}

TEST_F(PlantedRun, times_no_epoch_of_a_wrong_cell) {
  const Report report =
      report_of(R"("mode": ["double_gradient", "batch_size", "stale_gradient"], "epochs": 1, "samples": 48)");
  ASSERT_EQ(report.cells.size(), 3u);
  for (const CellReport& cell : report.cells) {
    EXPECT_EQ(cell.status, Status::wrong_result) << cell.id << ": " << cell.reason;
    EXPECT_EQ(cell.reason_code, ReasonCode::differs_from_oracle) << cell.id;
    for (const Fork& fork : cell.forks) EXPECT_THAT(fork.blocks, IsEmpty()) << cell.id << " was timed";
    EXPECT_FALSE(has_a_time(cell)) << cell.id;
  }
}

TEST_F(PlantedRun, removes_the_time_of_a_cell_that_was_wrong_when_timed) {
  const Report report = report_of(R"("mode": ["double_gradient", "later_steps", "fused_path"])");
  ASSERT_EQ(report.cells.size(), 3u);
  for (const CellReport& cell : report.cells) {
    EXPECT_EQ(cell.status, Status::wrong_result) << cell.id << ": " << cell.reason;
    EXPECT_FALSE(has_a_time(cell)) << cell.id;
  }
}

#ifdef ASSAY_TEST_ONEDNN
TEST_F(PlantedRun, finds_the_same_mistakes_in_kernels_of_onednn) {
  const Report report = report_of(
      R"("mode": ["onednn_honest", "onednn_batch_size", "onednn_stale_gradient", "onednn_later_steps", "onednn_fused_relu"])");
  ASSERT_EQ(report.cells.size(), 5u);
  EXPECT_EQ(report.cells[0].status, Status::ok) << report.cells[0].reason;
  for (std::size_t i = 1; i < report.cells.size(); ++i) {
    const CellReport& cell = report.cells[i];
    EXPECT_EQ(cell.status, Status::wrong_result) << cell.id << ": " << cell.reason;
    EXPECT_FALSE(has_a_time(cell)) << cell.id;
  }
}
#endif

}  // namespace
}  // namespace assay
