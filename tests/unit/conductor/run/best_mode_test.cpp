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
  if (!bare.empty()) made.bare_modes = {bare};
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
  std::vector<Cell> cells(const RunConfig& config) const { return expand(config, registries_).cells; }
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
  static MachineRecord machine(const char* model, double loop_seconds = 300e-6) {
    return {.cpu = {.model = model, .allowed = 2, .loop_seconds = loop_seconds}};
  }
  // Seconds of a step by cell, with three forks within 1 %; 0: it could not be run.
  static Report trial(const std::vector<Cell>& cells, const std::vector<double>& seconds) {
    Report report;
    report.environment = machine("a processor");
    for (std::size_t i = 0; i < cells.size(); ++i) {
      CellReport row = planned_report(cells[i], {});
      row.backend_version = "1.0";
      row.status = seconds.at(i) > 0 ? Status::ok : Status::unsupported;
      for (int round = 0; seconds[i] > 0 && round < 3; ++round) {
        row.forks.push_back(fork(seconds[i] * (1 + 0.005 * static_cast<double>((i + round) % 3))));
        row.forks.back().round = round;
      }
      report.cells.push_back(std::move(row));
    }
    return report;
  }

  Registries registries_;
  BackendRegistry& registry_ = registries_.backends;
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

TEST_F(BestModeTest, ALayoutThatTheBackendRefusesIsNotACandidate) {
  registry_.backends[1].refusals = {{.layouts = {"channels_last"}, .reason = "not on this device"}};
  EXPECT_THAT(settings(cells(config(lenet5))),
              ElementsAre("lenet5 engine graph native", "lenet5 engine plain native",
                          "lenet5 framework eager native", "lenet5 framework compile native"));
  const std::vector<Cell> asked = cells(config(R"({"workload": "lenet5", "dataset": "synthetic",
      "backend": "framework", "mode": "eager", "layout": "channels_last"})"));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_FALSE(asked[0].runnable()) << "one that was asked for has a row";
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
  seconds[12] = 4;                                      // cnn b16: eager native
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

TEST_F(BestModeTest, KeepsTheDeviceThatTheBackendsOfARowShare) {
  registry_.backends[0].devices = {DeviceKind::cuda};
  registry_.backends[1].devices = {DeviceKind::cpu, DeviceKind::cuda};
  for (const char* device : {"", R"("device": "auto", )"}) {
    const RunConfig asked =
        config((std::string("{") + device + R"("workload": "lenet5", "dataset": "synthetic",
        "mode": "best", "layout": "native", "backend": ["engine", "framework"]})")
                   .c_str());
    const std::vector<Cell> all = cells(asked);
    ASSERT_EQ(all.size(), 4U);
    const std::vector<Cell> chosen = cells(with_best(asked, BestTrial(all, trial(all, {1, 2, 3, 4}))));
    ASSERT_EQ(chosen.size(), 3U) << "the bare mode stays";
    for (const Cell& cell : chosen) EXPECT_EQ(cell.axes.device, DeviceKind::cuda) << cell.id;
  }
}

TEST_F(BestModeTest, RowsThatAskForNoBestModeStay) {
  const RunConfig asked = config(R"({"dataset": "synthetic", "backend": "framework",
      "cells": [{"workload": "mlp", "mode": "eager"}, {"workload": "lenet5", "mode": "best"}]})");
  const std::vector<Cell> all = cells(asked);
  ASSERT_EQ(all.size(), 5U);
  EXPECT_THAT(settings(cells(with_best(asked, BestTrial(all, trial(all, {1, 4, 3, 2, 5}))))),
              ElementsAre("mlp framework eager native", "lenet5 framework eager channels_last"));
}

TEST_F(BestModeTest, ASearchIsRememberedOnThatMachineForThatVersion) {
  const TemporaryFolder folder;
  const BestMemory memory(MachineStore(folder / "best"));
  const std::vector<Cell> all = cells(config(lenet5));
  const Report report = trial(all, {1, 3, 4, 2, 1.99, 8});
  EXPECT_FALSE(memory.better(report.cells[2], report.environment)) << "nothing was kept yet";
  memory.keep(BestTrial(all, report));
  const auto better = memory.better(report.cells[2], report.environment);
  ASSERT_TRUE(better);
  EXPECT_EQ(better->mode, "eager");
  EXPECT_EQ(better->layout, "channels_last");
  EXPECT_NEAR(better->ratio, 1.99 / 4, 0.01);
  EXPECT_LT(better->lower, better->ratio);
  EXPECT_GT(better->upper, better->ratio);
  EXPECT_FALSE(memory.better(report.cells[3], report.environment)) << "half a percent is within the scatter";
  EXPECT_FALSE(memory.better(report.cells[2], machine("another")));
  EXPECT_TRUE(memory.better(report.cells[2], machine("a processor", 340e-6)));
  EXPECT_FALSE(memory.better(report.cells[2], machine("a processor", 350e-6)))
      << "its processor is slower now";
  EXPECT_FALSE(memory.better(report.cells[2], MachineRecord())) << "an unknown machine";
  CellReport newer = report.cells[2];
  newer.backend_version = "2.0";
  EXPECT_FALSE(memory.better(newer, report.environment));
}

TEST_F(BestModeTest, ALaterSearchReplacesWhatIsRemembered) {
  const TemporaryFolder folder;
  const BestMemory memory(MachineStore(folder / "best"));
  const std::vector<Cell> all = cells(config(lenet5));
  memory.keep(BestTrial(all, trial(all, {1, 3, 4, 2, 1.5, 8})));
  const Report equal = trial(all, {1, 3, 2, 2, 2, 2});
  ASSERT_TRUE(memory.better(equal.cells[3], equal.environment));
  memory.keep(BestTrial(all, equal));
  EXPECT_FALSE(memory.better(equal.cells[3], equal.environment));
}

TEST_F(BestModeTest, ForksThatOthersDisturbedDoNotCount) {
  const std::vector<Cell> all = cells(config(lenet5));
  Report report = trial(all, {1, 3, 1.6, 2, 1.5, 8});
  report.cells[2].forks[1] = fork(9);
  report.cells[2].forks[1].round = 1;
  report.cells[2].forks[1].flags = {quality_flag::disturbed};
  for (int round = 0; round < 3; ++round) {
    Fork& other = report.cells[4].forks[static_cast<std::size_t>(round)];
    other = fork(1);
    other.round = round;
    other.flags = {quality_flag::disturbed};
  }
  const std::vector<BestRecord> best = best_of(BestTrial(all, report));
  EXPECT_EQ(best.back().tried[0].layout, "channels_last") << "of a candidate without another fork, all count";
  const TriedRecord& native = best.back().tried[1];
  EXPECT_EQ(native.mode, "eager");
  EXPECT_LT(native.step_time, 1.7);
  EXPECT_EQ(native.forks, 3);
  EXPECT_FALSE(native.lower) << "it shares no undisturbed round with the first one";
}

TEST_F(BestModeTest, AFastWrongCandidateIsNotChosen) {
  const std::vector<Cell> all = cells(config(lenet5));
  Report report = trial(all, {1, 3, 4, 2, 1.5, 8});
  report.cells[4].forks[1].status = Status::wrong_result;
  report.cells[4].status = Status::wrong_result;
  report.cells[4].reason = "the loss differs";
  const std::vector<TriedRecord> tried = best_of(BestTrial(all, report)).back().tried;
  EXPECT_EQ(tried.front().mode, "compile");
  EXPECT_FALSE(tried.back().step_time);
  EXPECT_EQ(tried.back().reason, "the loss differs");
}

TEST_F(BestModeTest, AMemoryWithoutAnIntervalIsNoKnowledge) {
  const TemporaryFolder folder;
  const BestMemory memory(MachineStore(folder / "best"));
  const std::vector<Cell> all = cells(config(lenet5));
  const Report report = trial(all, {1, 3, 4, 2, 1.5, 8});
  memory.keep(BestTrial(all, report));
  ASSERT_TRUE(memory.better(report.cells[2], report.environment));
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder / "best")) {
    if (!file.is_regular_file()) continue;
    nlohmann::json kept = nlohmann::json::parse(std::ifstream(file.path()));
    for (auto& tried : kept["content"]["tried"]) tried["lower"] = nullptr;
    std::ofstream(file.path()) << kept;
  }
  EXPECT_FALSE(memory.better(report.cells[2], report.environment));
}

TEST_F(BestModeTest, ADamagedMemoryIsNoKnowledge) {
  const TemporaryFolder folder;
  const BestMemory memory(MachineStore(folder / "best"));
  const std::vector<Cell> all = cells(config(lenet5));
  const Report report = trial(all, {1, 3, 4, 2, 1.5, 8});
  memory.keep(BestTrial(all, report));
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder / "best"))
    if (file.is_regular_file()) std::filesystem::resize_file(file.path(), 10);
  EXPECT_FALSE(memory.better(report.cells[2], report.environment));
}

}  // namespace
}  // namespace assay
