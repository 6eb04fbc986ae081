#include "harness/conductor/run/best_mode.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/config/matrix.hpp"
#include "harness/conductor/run/cell_report.hpp"
#include "harness/report/fork_time.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

BackendDescription backend(const std::string& name, std::vector<std::string> modes,
                           std::vector<std::string> layouts, const std::string& bare = "") {
  BackendDescription made;
  made.name = name;
  made.command = {"/bin/true"};
  made.devices = {DeviceKind::cpu};
  made.modes = std::move(modes);
  made.tasks = {Task::train, Task::infer};
  made.precisions = {PrecisionKind::fp32};
  made.layouts = std::move(layouts);
  made.loaders = {LoaderKind::resident};
  made.bare_mode = bare;
  return made;
}

class BestModeTest : public ::testing::Test {
 protected:
  BestModeTest() {
    registry_.backends = {backend("engine", {"graph", "plain"}, {"native"}, "plain"),
                          backend("framework", {"eager", "compile"}, {"native", "channels_last"})};
  }
  static RunConfig config(const char* json) {
    return config_from_json(nlohmann::json::parse(json), "test.json");
  }
  std::vector<Cell> cells(const RunConfig& config) const { return expand(config, registry_).cells; }
  static std::vector<std::string> settings(const std::vector<Cell>& cells) {
    std::vector<std::string> found;
    for (const Cell& cell : cells)
      found.push_back(cell.axes.workload + " " + cell.axes.backend + " " + cell.axes.mode + " " +
                      cell.axes.layout);
    return found;
  }
  static Fork fork(double step_seconds) {
    Fork made;
    made.status = Status::ok;
    made.blocks = {{.kind = BlockKind::timed, .steps = 1, .end_ns = std::llround(1e9 * step_seconds)}};
    return made;
  }
  // Seconds of a step by cell; 0: it could not be run.
  static Report trial(const std::vector<Cell>& cells, const std::vector<double>& seconds) {
    Report report;
    report.environment = {{"cpu", {{"model", "a processor"}}}};
    for (std::size_t i = 0; i < cells.size(); ++i) {
      CellReport row = planned_report(cells[i], 1);
      row.backend_version = "1.0";
      row.status = seconds.at(i) > 0 ? Status::ok : Status::unsupported;
      if (seconds[i] > 0) row.forks.push_back(fork(seconds[i]));
      report.cells.push_back(std::move(row));
    }
    return report;
  }

  BackendRegistry registry_;
};

constexpr const char* lenet5 = R"({"workload": "lenet5", "dataset": "synthetic", "mode": "best"})";

TEST_F(BestModeTest, CandidatesAreTheModesAndLayoutsOfEachBackend) {
  const std::vector<Cell> all = cells(config(lenet5));
  EXPECT_THAT(settings(all),
              ElementsAre("lenet5 engine graph native", "lenet5 engine plain native",
                          "lenet5 framework eager native", "lenet5 framework compile native",
                          "lenet5 framework eager channels_last", "lenet5 framework compile channels_last"));
  EXPECT_TRUE(seeks_best(config(lenet5)));
  EXPECT_FALSE(all[1].candidate) << "a bare library is not a contestant";
  EXPECT_THAT(settings(cells(config(R"({"workload": "lenet5", "dataset": "synthetic", "mode": "best",
                                        "backend": "framework", "layout": "native"})"))),
              ElementsAre("lenet5 framework eager native", "lenet5 framework compile native"));
}

TEST_F(BestModeTest, BestStandsAlone) {
  EXPECT_THROW(cells(config(R"({"workload": "mlp", "mode": ["best", "eager"]})")), ConfigError);
}

TEST_F(BestModeTest, TheFastestOfEachWorkIsMeasured) {
  const RunConfig asked = config(
      R"({"workload": ["lenet5", "cnn"], "dataset": "synthetic", "backend": "framework", "mode": "best",
                 "batch": [8, 16]})");
  const std::vector<Cell> all = cells(asked);
  ASSERT_EQ(all.size(), 16U);
  std::vector<double> seconds(16, 5);
  seconds[1] = 1;                                       // lenet5 b8: compile native
  seconds[6] = 0;                                       // lenet5 b16
  seconds[7] = 2;                                       // lenet5 b16: compile channels_last
  for (std::size_t i = 8; i < 12; ++i) seconds[i] = 0;  // cnn b8: none
  const Report report = trial(all, seconds);
  const RunConfig best_config = with_best(asked, BestTrial(all, report));
  const std::vector<Cell> chosen = cells(best_config);
  EXPECT_THAT(settings(chosen),
              ElementsAre("lenet5 framework compile native", "lenet5 framework compile channels_last",
                          "cnn framework eager native", "cnn framework eager native"));
  EXPECT_EQ(chosen[0].axes.batch, 8);
  EXPECT_EQ(chosen[1].axes.batch, 16);
  EXPECT_FALSE(seeks_best(best_config));

  const std::vector<BestRecord> best = best_of(BestTrial(all, report));
  ASSERT_EQ(best.size(), 4U);
  EXPECT_EQ(best[1].tried.front().mode, "compile");
  EXPECT_EQ(best[1].tried.front().layout, "channels_last");
  EXPECT_FALSE(best[1].tried.back().step_time);
}

TEST_F(BestModeTest, RowsThatAskForNoBestModeStay) {
  const RunConfig asked = config(R"({"dataset": "synthetic", "backend": "framework",
      "cells": [{"workload": "mlp", "mode": "eager"}, {"workload": "lenet5", "mode": "best"}]})");
  const std::vector<Cell> all = cells(asked);
  ASSERT_EQ(all.size(), 5U);
  EXPECT_THAT(settings(cells(with_best(asked, BestTrial(all, trial(all, {1, 4, 3, 2, 5}))))),
              ElementsAre("mlp framework eager native", "lenet5 framework eager channels_last"));
}

TEST_F(BestModeTest, ATrialIsRememberedOnThatMachineForThatVersion) {
  const TemporaryFolder folder;
  const BestMemory memory(folder / "best");
  const std::vector<Cell> all = cells(config(lenet5));
  const Report report = trial(all, {1, 3, 4, 2, 1.99, 8});
  EXPECT_FALSE(memory.better(report.cells[2], report.environment)) << "nothing was kept yet";
  memory.keep(BestTrial(all, report));
  const auto better = memory.better(report.cells[2], report.environment);
  ASSERT_TRUE(better);
  EXPECT_EQ(better->mode, "eager");
  EXPECT_EQ(better->layout, "channels_last");
  EXPECT_NEAR(better->ratio, 1.99 / 4, 1e-12);
  EXPECT_FALSE(memory.better(report.cells[3], report.environment)) << "half a percent is not told";
  EXPECT_FALSE(memory.better(report.cells[2], {{"cpu", {{"model", "another"}}}}));
  CellReport newer = report.cells[2];
  newer.backend_version = "2.0";
  EXPECT_FALSE(memory.better(newer, report.environment));
}

TEST_F(BestModeTest, ATrialThatOthersDisturbIsMadeAgainAndNotRemembered) {
  const TemporaryFolder folder;
  const BestMemory memory(folder / "best");
  const std::vector<Cell> all = cells(config(lenet5));
  Report report = trial(all, {1, 3, 9, 2, 1.5, 8});
  report.cells[2].forks.back().flags = {quality_flag::disturbed};
  EXPECT_FALSE(is_trial_over(report.cells[2]));
  memory.keep(BestTrial(all, report));
  EXPECT_FALSE(memory.better(report.cells[3], report.environment));
  report.cells[2].forks.push_back(fork(1));
  EXPECT_TRUE(is_trial_over(report.cells[2]));
  EXPECT_EQ(best_of(BestTrial(all, report)).back().tried.front().layout, "native")
      << "by its undisturbed fork";
  memory.keep(BestTrial(all, report));
  EXPECT_TRUE(memory.better(report.cells[3], report.environment));
}

TEST_F(BestModeTest, AMemoryWhoseFirstEntryHasNoTimeIsNoKnowledge) {
  const TemporaryFolder folder;
  const BestMemory memory(folder / "best");
  const std::vector<Cell> all = cells(config(lenet5));
  const Report report = trial(all, {1, 3, 4, 2, 1.5, 8});
  memory.keep(BestTrial(all, report));
  ASSERT_TRUE(memory.better(report.cells[2], report.environment));
  for (const auto& file : std::filesystem::directory_iterator(folder / "best")) {
    nlohmann::json kept = nlohmann::json::parse(std::ifstream(file.path()));
    kept["tried"][0]["step_time"] = nullptr;
    std::ofstream(file.path()) << kept;
  }
  EXPECT_FALSE(memory.better(report.cells[2], report.environment));
}

TEST_F(BestModeTest, ADamagedMemoryIsNoKnowledge) {
  const TemporaryFolder folder;
  const BestMemory memory(folder / "best");
  const std::vector<Cell> all = cells(config(lenet5));
  const Report report = trial(all, {1, 3, 4, 2, 1.5, 8});
  memory.keep(BestTrial(all, report));
  for (const auto& file : std::filesystem::directory_iterator(folder / "best"))
    std::filesystem::resize_file(file.path(), 10);
  EXPECT_FALSE(memory.better(report.cells[2], report.environment));
}

}  // namespace
}  // namespace assay
