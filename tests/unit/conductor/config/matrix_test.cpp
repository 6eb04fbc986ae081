#include "harness/conductor/config/matrix.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/config/ranks.hpp"
#include "harness/conductor/config/run_settings.hpp"
#include "harness/core/error.hpp"
#include "harness/graph/op.hpp"
#include "harness/machine/environment.hpp"
#include "workloads/ops/op_workload.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

BackendDescription backend(const std::string& name, std::vector<std::string> modes) {
  BackendDescription result;
  result.name = name;
  result.kind = BackendKind::bare;
  result.command = {"/bin/true"};
  result.devices = {DeviceKind::cpu};
  result.modes = std::move(modes);
  result.tasks = {Task::train, Task::infer};
  result.precisions = {PrecisionKind::fp32};
  result.layouts = {"native"};
  result.loaders = {LoaderKind::resident, LoaderKind::harness};
  return result;
}

class MatrixTest : public ::testing::Test {
 protected:
  MatrixTest() {
    registry_.backends = {backend("fast", {"eager", "graph"}), backend("gone", {"graph"}),
                          backend("oracle", {"graph"}), backend("other", {"eager", "compile"})};
    registry_.backends[1].unavailable = "it is not set up";
    registry_.backends[1].remedy = "set it up";
    registry_.backends[2].oracle = true;
  }
  std::vector<Cell> cells(const char* config) { return expansion(config).cells; }
  Expansion expansion(const char* config) {
    return expand(config_from_json(nlohmann::json::parse(config), "test.json"), registries_);
  }
  // Backend and device of each cell, once.
  std::vector<std::string> placed(const char* config) {
    std::vector<std::string> found;
    for (const Cell& cell : cells(config)) {
      std::string place = fmt::format("{} {}", cell.axes.backend, cell.axes.text("device"));
      if (found.empty() || found.back() != place) found.push_back(std::move(place));
    }
    return found;
  }
  std::string error_of(const char* config) {
    try {
      cells(config);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  Registries registries_;
  BackendRegistry& registry_ = registries_.backends;
};

TEST_F(MatrixTest, MakesAProgramOnceForTheCellsThatComputeIt) {
  const auto made = cells(
      R"({"workload": ["mlp", "op/relu"], "backend": ["fast", "other"], "mode": ["eager"], "threads": [1, 2]})");
  const Cell& first = made.front();
  EXPECT_EQ(first.program->training->name(), "mlp");
  for (const Cell& cell : made) {
    if (cell.axes.workload != "mlp") continue;
    EXPECT_EQ(cell.program, first.program) << cell.id;
  }
  const auto differ = cells(
      R"({"workload": "mlp", "backend": "fast", "mode": "eager", "batch": [8, 16], "weight-decay": [0, 0.1]})");
  std::set<const Program*> programs;
  for (const Cell& cell : differ) programs.insert(cell.program.get());
  EXPECT_EQ(programs.size(), 4U);
}

TEST_F(MatrixTest, GivesACellThatInfersNoTraining) {
  const auto made =
      cells(R"({"workload": "cnn", "backend": "fast", "mode": "eager", "task": ["infer", "train"]})");
  ASSERT_EQ(made.size(), 2U);
  for (const Cell& cell : made) {
    const bool trains = cell.axes.task == Task::train;
    EXPECT_EQ(cell.program->training.has_value(), trains) << cell.id;
    EXPECT_EQ(cell.program->optimizer.has_value(), trains) << cell.id;
  }
}

TEST_F(MatrixTest, RunsANetworkThatWasMadeAtRunTime) {
  Workload mine = registries_.workloads.network("mlp");
  mine.name = "mine";
  mine.classes = 3;
  registries_.workloads.add(mine);
  const auto made =
      cells(R"({"workload": "mine", "dataset": "synthetic", "backend": "fast", "mode": "eager"})");
  ASSERT_EQ(made.size(), 1U);
  EXPECT_TRUE(made[0].runnable()) << made[0].reason;
  const Graph& graph = made[0].program->inference;
  EXPECT_EQ(graph.value(graph.output("logits")).type.shape.back(), 3);
  EXPECT_THAT(error_of(R"({"workload": "mines", "backend": "fast"})"), HasSubstr("did you mean 'mine'"));
}

TEST_F(MatrixTest, TakesTheRecommendedModeWhereNoneIsGiven) {
  const auto modes = [this](const char* config) {
    std::vector<std::string> found;
    for (const Cell& cell : cells(config)) found.push_back(cell.axes.backend + " " + cell.axes.mode);
    return found;
  };
  registry_.backends[0].recommended = "graph";
  const char* both = R"({"workload": "mlp", "backend": ["fast", "other"]})";
  EXPECT_THAT(modes(both), ElementsAre("fast graph", "other eager", "other compile"))
      << "a backend that recommends none has every mode";
  EXPECT_THAT(modes(R"({"workload": "mlp", "backend": "fast", "mode": "all"})"),
              ElementsAre("fast eager", "fast graph"));
  EXPECT_THAT(modes(R"({"workload": "mlp", "backend": "fast", "mode": "eager"})"), ElementsAre("fast eager"));
}

TEST_F(MatrixTest, LeavesOutBackendsWithoutTheDeviceThatNobodyNamed) {
  registry_.backends[3].devices = {DeviceKind::cpu, DeviceKind::cuda};
  registry_.backends.push_back(backend("gpu", {"graph"}));
  registry_.backends.back().devices = {DeviceKind::cuda};
  EXPECT_THAT(placed(R"({"workload": "mlp"})"), ElementsAre("fast cpu", "other cpu"));
  EXPECT_THAT(
      expansion(R"({"workload": "mlp"})").left_out,
      ElementsAre(
          "gpu is left out: it runs on cuda, not on cpu; use --backend to name it, or --device cuda"));
  EXPECT_THAT(placed(R"({"workload": "mlp", "device": "cuda"})"), ElementsAre("other cuda", "gpu cuda"));
  EXPECT_THAT(placed(R"({"workload": "mlp", "device": ["cpu", "cuda"]})"),
              ElementsAre("fast cpu", "other cpu", "other cuda", "gpu cuda"));
  registry_.backends.resize(1);
  EXPECT_THAT(error_of(R"({"workload": "mlp", "device": "cuda"})"),
              AllOf(HasSubstr("nothing to run: fast is left out"), HasSubstr("use --device cpu")));
  EXPECT_THAT(error_of(R"({"workload": "mlp", "device": "gpu"})"), HasSubstr("cpu, cuda"));
}

TEST_F(MatrixTest, GivesNamedBackendsADeviceThatTheyHave) {
  registry_.backends[3].devices = {DeviceKind::cpu, DeviceKind::cuda};
  registry_.backends.push_back(backend("gpu", {"graph"}));
  registry_.backends.back().devices = {DeviceKind::cuda};
  EXPECT_THAT(placed(R"({"workload": "mlp", "backend": "gpu"})"), ElementsAre("gpu cuda"));
  EXPECT_THAT(placed(R"({"workload": "mlp", "backend": "other"})"), ElementsAre("other cpu"));
  EXPECT_THAT(placed(R"({"workload": "mlp", "backend": ["gpu", "other"]})"),
              ElementsAre("gpu cuda", "other cuda"));
  EXPECT_THAT(placed(R"({"workload": "mlp", "backend": ["gpu", "fast", "other"]})"),
              ElementsAre("gpu cuda", "fast cpu", "other cpu"));
  const auto asked = cells(R"({"workload": "mlp", "backend": "fast", "device": "cuda"})");
  EXPECT_EQ(asked.at(0).status, Status::unsupported);
  EXPECT_THAT(asked.at(0).reason, HasSubstr("--device cpu"));
}

TEST_F(MatrixTest, TakesAGpuWhereThereIsOneIfTheDeviceIsAuto) {
  registry_.backends[3].devices = {DeviceKind::cpu, DeviceKind::cuda};
  registry_.backends[3].unavailable_on = {{DeviceKind::cuda, "no driver; load one"}};
  const char* all = R"({"workload": "mlp", "device": "auto"})";
  const char* named = R"({"workload": "mlp", "backend": ["fast", "other"], "device": "auto"})";
  EXPECT_THAT(placed(all), ElementsAre("fast cpu", "other cpu"));
  EXPECT_THAT(placed(named), ElementsAre("fast cpu", "other cpu"));
  registry_.backends[3].unavailable_on.clear();
  EXPECT_THAT(placed(all), ElementsAre("other cuda"));
  EXPECT_THAT(placed(named), ElementsAre("fast cpu", "other cuda"));
  EXPECT_THAT(error_of(R"({"workload": "mlp", "device": ["auto", "cpu"]})"),
              HasSubstr("auto cannot be combined"));
}

TEST_F(MatrixTest, TakesTheFirstModeThatIsRecommendedOnTheDeviceAndNotRefused) {
  registry_.backends[0].devices = {DeviceKind::cpu, DeviceKind::cuda};
  registry_.backends[0].recommended = "graph";
  registry_.backends[0].recommended_on = {{"cuda", {"eager", "graph"}}};
  registry_.backends[0].refusals = {{.tasks = {Task::infer}, .modes = {"eager"}, .reason = "it only trains"}};
  const auto mode = [this](const std::string& axes) {
    return cells((R"({"workload": "mlp", "backend": "fast", )" + axes + "}").c_str()).at(0).axes.mode;
  };
  EXPECT_EQ(mode(R"("device": "cpu")"), "graph");
  EXPECT_EQ(mode(R"("device": "cuda")"), "eager");
  EXPECT_EQ(mode(R"("device": "cuda", "task": "infer")"), "graph");
}

TEST_F(MatrixTest, FindsTheBaseOfAPublishedRatioInTheModeOfItsDevice) {
  registry_.backends[0].devices = {DeviceKind::cpu, DeviceKind::cuda};
  registry_.backends[0].recommended = "graph";
  registry_.backends[0].recommended_on = {{"cuda", {"eager"}}};
  const auto made = cells(R"({"backend": "fast", "workload": "mlp", "cells": [
      {"device": ["cpu", "cuda"], "published": [
        {"metric": "step_time", "value": 2, "source": "a study", "to": {"device": "cpu"}}]}]})");
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[1].axes.mode, "eager");
  for (const Cell& cell : made) EXPECT_EQ(cell.published.at(0).to, made[0].id);
}

TEST_F(MatrixTest, SaysWhatWasLeftOutIfNothingIsLeft) {
  registry_.backends[3].devices = {DeviceKind::cuda};
  EXPECT_THAT(error_of(R"({"workload": "mlp", "mode": "compile"})"),
              AllOf(HasSubstr("nothing to run"), HasSubstr("other is left out")));
}

TEST_F(MatrixTest, ProfilesOnlyBackendsThatTimeOperators) {
  registry_.backends[0].times_operators = true;
  const char* both = R"({"workload": "mlp", "backend": ["fast", "other"], "profile": true})";
  for (const Cell& cell : cells(both)) EXPECT_EQ(cell.profile, cell.axes.backend == "fast") << cell.id;
  const Expansion expansion = expand(config_from_json(nlohmann::json::parse(both), "test.json"), registries_);
  EXPECT_THAT(expansion.left_out,
              ElementsAre("other has no profile: it cannot time its operators, which fast can"));
  EXPECT_THAT(error_of(R"({"workload": "mlp", "backend": "other", "profile": true})"),
              HasSubstr("[profile] other cannot time its operators; use --backend fast"));
  EXPECT_EQ(error_of(R"({"workload": "mlp", "backend": "other"})"), "");
}

TEST_F(MatrixTest, AddsTheBareModeNextToOtherBackendsWhereNoModeIsGiven) {
  const auto modes = [this](const char* config) {
    std::vector<std::string> found;
    for (const Cell& cell : cells(config)) found.push_back(cell.axes.backend + " " + cell.axes.mode);
    return found;
  };
  registry_.backends[0].modes.emplace_back("bare");
  registry_.backends[0].recommended = "graph";
  registry_.backends[0].bare_modes = {"bare"};
  registry_.backends[3].recommended = "compile";
  EXPECT_THAT(modes(R"({"workload": "mlp", "backend": ["fast", "other"]})"),
              ElementsAre("fast graph", "fast bare", "other compile"));
  EXPECT_THAT(modes(R"({"workload": "mlp", "backend": "fast"})"), ElementsAre("fast graph"))
      << "there is nobody to tax";
  EXPECT_THAT(modes(R"({"workload": "mlp", "backend": ["fast", "other"], "mode": ["graph", "compile"]})"),
              ElementsAre("fast graph", "other compile"));
}

TEST_F(MatrixTest, NamesABackendThatIsLeftOut) {
  const auto left_out = [this](const char* config) {
    return expand(config_from_json(nlohmann::json::parse(config), "test.json"), registries_).left_out;
  };
  EXPECT_THAT(left_out(R"({"workload": "mlp", "backend": ["fast", "other"], "mode": "graph"})"),
              ElementsAre("other is skipped: it does not have the modes graph (it has eager, compile)"));
  EXPECT_THAT(left_out(R"({"workload": "mlp", "backend": ["fast", "other"], "mode": ["graph", "compile"]})"),
              ::testing::IsEmpty());
  EXPECT_THAT(left_out(R"({"workload": "mlp", "mode": "graph"})"), ::testing::IsEmpty())
      << "nobody named the others";
}

TEST_F(MatrixTest, NamesTheRanksOfACellOnlyIfThereAreSeveral) {
  registry_.backends[0].collectives = {"sockets"};
  const auto made =
      cells(R"({"workload": "mlp", "backend": "fast", "mode": "graph", "threads": 3, "ranks": [1, 2]})");
  ASSERT_EQ(made.size(), 2u);
  EXPECT_THAT(made[0].id, Not(HasSubstr("ranks")));
  EXPECT_THAT(made[1].id, HasSubstr("/ranks=2/"));
  EXPECT_NE(made[0].group(), made[1].group());
  for (const Cell& cell : made) EXPECT_TRUE(cell.runnable()) << cell.reason;
  EXPECT_EQ(made[1].axes.ranks(), 2);
  EXPECT_EQ(made[1].axes.threads_of_all_ranks(), 6);
  EXPECT_THAT(made[1].reproduce({}, 1), HasSubstr("--ranks 2"));
  EXPECT_EQ(cell_of_rank(made[1]).axes.batch, made[1].axes.batch / 2);
}

TEST_F(MatrixTest, GivesEachRankTheBatchIfTheScalingIsWeak) {
  registry_.backends[0].collectives = {"sockets"};
  const auto made = cells(
      R"({"workload": "mlp", "backend": "fast", "mode": "graph", "batch": 8, "ranks": [1, 4], "scaling": "weak"})");
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0].axes.batch, 8);
  EXPECT_EQ(made[1].axes.batch, 32);
  EXPECT_THAT(made[1].id, HasSubstr("/b32/"));
}

TEST_F(MatrixTest, TakesTheAddressAtWhichRanksMeet) {
  registry_.backends[0].collectives = {"sockets"};
  const auto made = cells(
      R"({"workload": "mlp", "backend": "fast", "mode": "graph", "ranks": [1, 2], "rendezvous": "10.0.0.1"})");
  EXPECT_EQ(made.at(1).rendezvous, "10.0.0.1");
  EXPECT_THAT(made.at(1).reproduce({}, 1), HasSubstr(" --rendezvous 10.0.0.1"));
  EXPECT_THAT(made.at(0).reproduce({}, 1), Not(HasSubstr("rendezvous"))) << "one rank meets nobody";
  for (const std::string wrong : {"localhost", "10.0.0", "10.0.0.1:29400"})
    EXPECT_THAT(
        error_of((R"({"workload": "mlp", "backend": "fast", "ranks": 2, "rendezvous": ")" + wrong + "\"}")
                     .c_str()),
        AllOf(HasSubstr("[rendezvous] got '" + wrong + "'"), HasSubstr("10.0.0.1")));
}

TEST_F(MatrixTest, RejectsABatchThatRanksCannotShare) {
  registry_.backends[0].collectives = {"sockets"};
  EXPECT_THAT(error_of(R"({"workload": "mlp", "backend": "fast", "batch": 33, "ranks": 2})"),
              AllOf(HasSubstr("got 2 with a batch of 33"), HasSubstr("use --batch 34")));
}

TEST_F(MatrixTest, RefusesRanksThatCannotTrainTogether) {
  registry_.backends[0].loaders.push_back(LoaderKind::native);
  registry_.backends[0].devices.push_back(DeviceKind::cuda);
  const auto reason = [this](const std::string& axes) {
    const Cell cell =
        cells((R"({"backend": "fast", "mode": "graph", "batch": 8, "ranks": 2, )" + axes + "}").c_str())
            .at(0);
    EXPECT_EQ(cell.status, cell.runnable() ? Status::ok : Status::unsupported);
    EXPECT_EQ(cell.reason_code, cell.runnable() ? ReasonCode::absent : ReasonCode::ranks_not_supported);
    return cell.reason;
  };
  EXPECT_THAT(reason(R"("workload": "mlp")"), HasSubstr("names no collectives"));
  registry_.backends[0].collectives = {"sockets"};
  EXPECT_EQ(reason(R"("workload": "mlp")"), "");
  EXPECT_EQ(reason(R"("workload": "lstm")"), "");
  EXPECT_THAT(reason(R"("workload": "mlp", "task": "infer")"), HasSubstr("--task train"));
  EXPECT_THAT(reason(R"("workload": "mlp", "device": "cuda")"), HasSubstr("--device cpu"));
  EXPECT_THAT(reason(R"("workload": "mlp", "loader": "native")"), HasSubstr("--loader harness"));
  EXPECT_EQ(reason(R"("workload": "resnet56")"), "");
  EXPECT_THAT(reason(R"("workload": "resnet56", "distinct": 1)"), HasSubstr("--distinct 2"));
  EXPECT_EQ(reason(R"("workload": "resnet56", "distinct": 1, "check": false)"), "");
  EXPECT_EQ(reason(R"("workload": "mlp", "distinct": 1)"), "");
  EXPECT_EQ(reason(R"("workload": "cifar10-cnn")"), "") << "each rank has masks of its own";
}

TEST_F(MatrixTest, GivesEachRankAGpu) {
  registry_.backends[0].devices.push_back(DeviceKind::cuda);
  registry_.backends[0].collectives = {"sockets", "nccl"};
  const char* two =
      R"({"workload": "mlp", "backend": "fast", "mode": "graph", "device": "cuda", "ranks": 2})";
  const Cell cell = cells(two).at(0);
  EXPECT_NE(cell.status, Status::unsupported);
  EXPECT_EQ(gpus_refusal(cell, {"0", "1"}), "");
  EXPECT_THAT(gpus_refusal(cell, {"3"}), AllOf(HasSubstr("2 ranks"), HasSubstr("1 can be used")));
  EXPECT_THAT(gpus_refusal(cell, {}), HasSubstr("--ranks 1"));
  Cell on_processors = cell;
  on_processors.axes.device = DeviceKind::cpu;
  EXPECT_EQ(gpus_refusal(on_processors, {}), "");
}

TEST_F(MatrixTest, RefusesBatchNormOfASingleRow) {
  registry_.backends[0].collectives = {"sockets"};
  const Cell cell =
      cells(R"({"workload": "resnet56", "backend": "fast", "mode": "graph", "batch": 4, "ranks": 4})").at(0);
  EXPECT_EQ(cell.reason_code, ReasonCode::ranks_not_supported);
  EXPECT_THAT(cell.reason, AllOf(HasSubstr("batch norm"), HasSubstr("--batch 8")));
}

TEST_F(MatrixTest, RefusesWhatARuleOfTheBackendNames) {
  registry_.backends[0].loaders = {LoaderKind::resident, LoaderKind::harness, LoaderKind::native};
  const auto status = [this](const Refusal& rule, const char* axes) {
    registry_.backends[0].refusals = {rule};
    nlohmann::json config = nlohmann::json::parse(axes);
    config["backend"] = "fast";
    if (!config.contains("mode")) config["mode"] = "graph";
    const Cell cell = expand(config_from_json(config, "test.json"), registries_).cells.at(0);
    EXPECT_EQ(cell.reason, cell.runnable() ? "" : "[fast] never");
    EXPECT_EQ(cell.reason_code, cell.runnable() ? ReasonCode::absent : ReasonCode::refused_by_rule);
    return cell.status;
  };
  const auto expect_refused = [&](Refusal rule, const char* refused, const char* accepted) {
    rule.reason = "never";
    EXPECT_EQ(status(rule, refused), Status::unsupported) << refused;
    EXPECT_EQ(status(rule, accepted), Status::ok) << accepted;
  };
  const char *mlp = R"({"workload": "mlp"})", *relu = R"({"workload": "op/relu", "size": "4"})";
  const char* sparse = R"({"workload": "lstm", "optimizer": "lazy_adam", "embedding-gradient": "sparse"})";
  expect_refused({.tasks = {Task::infer}}, R"({"workload": "mlp", "task": "infer"})", mlp);
  expect_refused({.modes = {"eager"}}, R"({"workload": "mlp", "mode": "eager"})", mlp);
  expect_refused({.precisions = {PrecisionKind::fp32}, .single_ops = true}, relu, mlp);
  expect_refused({.loaders = {LoaderKind::harness}}, R"({"workload": "mlp", "loader": "harness"})", mlp);
  expect_refused({.optimizers = {"sgd"}}, R"({"workload": "mlp", "optimizer": "sgd"})", mlp);
  expect_refused({.ops = {"lstm", "tanh"}}, R"({"workload": "lstm"})", mlp);
  expect_refused({.single_ops = false}, mlp, relu);
  expect_refused({.row_sparse = true}, sparse, R"({"workload": "lstm"})");
  registry_.backends[0].collectives = {"sockets"};
  expect_refused({.several_ranks = true}, R"({"workload": "mlp", "ranks": 2})", mlp);
  expect_refused({.weight_decay = true}, R"({"workload": "mlp", "weight-decay": 0.1})", mlp);
  expect_refused({.loaders = {LoaderKind::native}, .encoded_images = true},
                 R"({"workload": "resnet50", "dataset": "imagenet", "loader": "native", "epochs": 1})",
                 R"({"workload": "resnet50", "dataset": "synthetic", "loader": "native", "epochs": 1})");
  expect_refused({.tasks = {Task::train}, .modes = {"eager"}},
                 R"({"workload": "mlp", "mode": "eager", "task": "train"})",
                 R"({"workload": "mlp", "mode": "eager", "task": "infer"})");
}

TEST_F(MatrixTest, OnlyNetworksThatGenerateTokensAreDecoded) {
  registry_.backends[0].tasks.push_back(Task::decode);
  const auto only = [this](const char* axes) {
    nlohmann::json config = nlohmann::json::parse(axes);
    config.update({{"backend", "fast"}, {"mode", "graph"}, {"task", "decode"}});
    return expand(config_from_json(config, "test.json"), registries_).cells.at(0);
  };
  const Cell cell = only(R"({"workload": "nanogpt", "sequence-length": 10})");
  EXPECT_EQ(cell.status, Status::ok) << cell.reason;
  EXPECT_EQ(cell.program->generated(), 5);
  EXPECT_EQ(only(R"({"workload": "mlp"})").reason_code, ReasonCode::no_tokens);
  EXPECT_THAT(only(R"({"workload": "mlp"})").reason, HasSubstr("nanogpt"));
  EXPECT_EQ(only(R"({"workload": "op/relu", "size": "4"})").reason_code, ReasonCode::no_tokens);
  EXPECT_EQ(only(R"({"workload": "nanogpt", "epochs": 1})").reason_code, ReasonCode::epochs_of_inference);
  const Cell elsewhere = cells(R"({"workload": "nanogpt", "task": "decode", "backend": "other"})").at(0);
  EXPECT_EQ(elsewhere.reason_code, ReasonCode::axis_value_not_offered);
}

TEST_F(MatrixTest, EveryModeIsEachThatTheBackendDoesNotRefuse) {
  const auto modes = [this](const char* config) {
    std::vector<std::string> found;
    for (const Cell& cell : cells(config)) found.push_back(cell.axes.mode);
    return found;
  };
  registry_.backends[0].refusals = {{.modes = {"graph"}, .single_ops = true, .reason = "no ops"}};
  EXPECT_THAT(modes(R"({"workload": "mlp", "backend": "fast", "mode": "all"})"),
              ElementsAre("eager", "graph"));
  const char* op = R"({"workload": "op/relu", "size": "4", "task": "infer", "backend": "fast", "mode": ")";
  EXPECT_THAT(modes((op + std::string("all\"}")).c_str()), ElementsAre("eager"));
  EXPECT_THAT(modes((op + std::string("best\"}")).c_str()), ElementsAre("eager"));
  EXPECT_THAT(modes((op + std::string("graph\"}")).c_str()), ElementsAre("graph")) << "it was asked for";
}

TEST_F(MatrixTest, ADeviceThatIsNotHereIsUnavailable) {
  registry_.backends[0].devices = {DeviceKind::cpu, DeviceKind::cuda};
  registry_.backends[0].unavailable_on = {{DeviceKind::cuda, "no driver; load one"}};
  const auto both =
      cells(R"({"workload": "mlp", "backend": "fast", "mode": "graph", "device": ["cpu", "cuda"]})");
  EXPECT_EQ(both.at(0).status, Status::ok);
  EXPECT_EQ(both.at(1).status, Status::unavailable);
  EXPECT_EQ(both.at(1).reason_code, ReasonCode::backend_unavailable);
  EXPECT_EQ(both.at(1).reason, "[fast] no driver; load one");
}

TEST_F(MatrixTest, RanksThatAreNotHereAreUnavailable) {
  registry_.backends[0].collectives = {"mpi"};
  registry_.backends[0].unavailable_in_ranks = "no MPI; build again";
  const auto both = cells(
      R"({"workload": "mlp", "backend": "fast", "mode": "graph", "batch": 8, "threads": 1, "ranks": [1, 2]})");
  EXPECT_EQ(both.at(0).status, Status::ok);
  EXPECT_EQ(both.at(1).status, Status::unavailable);
  EXPECT_EQ(both.at(1).reason_code, ReasonCode::backend_unavailable);
  EXPECT_EQ(both.at(1).reason, "[fast] no MPI; build again");
}

TEST_F(MatrixTest, RefusesAWarmCacheWhereABackendHasNone) {
  const char* warm = R"({"workload": "mlp", "backend": "fast", "mode": "graph", "compile-cache": "warm"})";
  EXPECT_EQ(cells(warm).at(0).status, Status::unsupported);
  registry_.backends[0].warm_environment = {{"CACHE", "${cache}/x"}};
  EXPECT_EQ(cells(warm).at(0).status, Status::ok);
}

TEST_F(MatrixTest, a_single_op_is_swept_over_its_sizes_forwards_and_backwards) {
  const auto all = cells(R"({"workload": "op/linear", "backend": "fast", "mode": "graph"})");
  EXPECT_EQ(all.size(), 2 * find_op_workload("op/linear").sizes.size());
  EXPECT_EQ(all.front().id, "op/linear/fast/cpu/graph/infer/fp32/native/m4/warm/t" +
                                std::to_string(all.front().axes.threads) + "/steps");
  EXPECT_EQ(all.front().axes.dataset, "");
  EXPECT_EQ(all.front().axes.optimizer, "");
  EXPECT_EQ(all.front().measure.resident_batches, 1);
  EXPECT_THAT(all.front().reproduce({}, 1),
              AllOf(HasSubstr("--size m4 --cache warm"), Not(HasSubstr("--batch"))));
  EXPECT_EQ(cells(R"({"workload": "op/linear", "backend": "fast", "mode": "graph", "quick": true})").size(),
            4U);
}

TEST_F(MatrixTest, quick_keeps_the_cheapest_of_a_long_list_of_sizes) {
  const auto all = cells(
      R"({"workload": "op/gemm", "backend": "fast", "mode": "graph", "task": "infer", "quick": true,
          "size": ["m64", "m8", "m512", "m16n1k1", "m1024", "m32"]})");
  std::vector<std::string> sizes;
  for (const Cell& cell : all) sizes.push_back(cell.axes.size);
  EXPECT_THAT(sizes, ElementsAre("m64", "m8", "m16n1k1", "m32"));
}

TEST_F(MatrixTest, every_single_op_answers_to_one_name) {
  const auto all = cells(R"({"workload": "op/*", "backend": "fast", "mode": "graph", "quick": true})");
  std::set<std::string> seen;
  for (const Cell& cell : all) seen.insert(cell.axes.workload);
  EXPECT_EQ(seen.size(), all_op_workloads().size());
}

TEST_F(MatrixTest, a_cold_op_goes_through_more_operands_than_caches_hold) {
  const auto cold = cells(
      R"({"workload": "op/relu", "backend": "fast", "mode": "graph", "task": "infer", "cache": "cold", "size": ["16", "1048576"]})");
  ASSERT_EQ(cold.size(), 2U);
  EXPECT_EQ(cold[0].status, Status::unsupported);
  EXPECT_EQ(cold[0].reason_code, ReasonCode::operands_stay_in_cache);
  EXPECT_TRUE(cold[1].runnable());
  EXPECT_GE(cold[1].measure.resident_batches, 3);
  EXPECT_NE(cold[1].id.find("/cold/"), std::string::npos);
}

TEST_F(MatrixTest, ColdOperandsExceedTheCacheOfTheirDevice) {
  const MachineRecord machine = environment();
  const std::int64_t of_gpu = gpu_cache(machine), of_cpu = last_level_cache(machine);
  registry_.backends[0].devices = {DeviceKind::cpu, DeviceKind::cuda};
  const auto all = cells(
      R"({"workload": "op/relu", "backend": "fast", "mode": "graph", "task": "infer", "cache": "cold",
          "size": "1048576", "device": ["cpu", "cuda"]})");
  ASSERT_EQ(all.size(), 2U);
  constexpr std::int64_t bytes = std::int64_t{4} << 20;
  EXPECT_EQ(all[0].measure.resident_batches, 2 * of_cpu / bytes + 2);
  EXPECT_EQ(all[1].measure.resident_batches, 2 * of_gpu / bytes + 2);
}

TEST_F(MatrixTest, axes_of_networks_and_of_ops_are_not_mixed) {
  EXPECT_THAT(error_of(R"({"workload": "op/relu", "batch": 3})"),
              HasSubstr("[batch] does not apply to op/relu"));
  EXPECT_THAT(error_of(R"({"workload": "op/relu", "epochs": 3})"), HasSubstr("[epochs]"));
  EXPECT_THAT(error_of(R"({"workload": "op/relu", "schedule": "cosine"})"), HasSubstr("[schedule]"));
  EXPECT_THAT(error_of(R"({"workload": "mlp", "size": "16"})"), HasSubstr("applies only to op/* workloads"));
  EXPECT_THAT(error_of(R"({"workload": "mlp", "cache": "cold"})"),
              HasSubstr("applies only to op/* workloads"));
  EXPECT_THAT(error_of(R"({"workload": "op/relu", "size": "n16"})"), HasSubstr("'n' is not a dimension"));
  EXPECT_THAT(error_of(R"({"workload": "op/max_pool", "size": "n1h2r3"})"), HasSubstr("max_pool"));
  EXPECT_THAT(error_of(R"({"workload": "op/rely"})"), HasSubstr("did you mean 'op/relu'?"));
}

TEST_F(MatrixTest, multiplies_lists_and_uses_all_modes_by_default) {
  EXPECT_EQ(
      cells(R"({"workload": ["mlp", "lenet5"], "batch": [16, 32], "backend": ["fast", "other"]})").size(),
      16U);
}

TEST_F(MatrixTest, uses_all_available_backends_except_the_oracle) {
  std::set<std::string> names;
  for (const Cell& cell : cells(R"({"workload": "mlp"})")) names.insert(cell.axes.backend);
  EXPECT_EQ(names, (std::set<std::string>{"fast", "other"}));
}

TEST_F(MatrixTest, takes_defaults_from_the_workload) {
  const Cell cell = cells(R"({"workload": "lenet5", "backend": "fast", "mode": "graph"})").at(0);
  EXPECT_EQ(cell.axes.batch, 200);
  EXPECT_EQ(cell.axes.dataset, "fashion-mnist");
  EXPECT_EQ(cell.axes.optimizer, "adam");
  EXPECT_EQ(cell.axes.loader, LoaderKind::resident);
  EXPECT_EQ(cell.network().learning_rate, 1e-3);
  EXPECT_EQ(
      cells(R"({"workload": "lenet5", "backend": "fast", "mode": "graph", "epochs": 2})").at(0).axes.loader,
      LoaderKind::harness);
}

TEST_F(MatrixTest, makes_no_cell_of_a_mode_that_only_another_backend_has) {
  const auto made =
      cells(R"({"workload": "mlp", "backend": ["fast", "other"], "mode": ["graph", "compile"]})");
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0].axes.mode, "graph");
  EXPECT_EQ(made[1].axes.mode, "compile");
}

TEST_F(MatrixTest, an_unsupported_cell_is_a_row_with_its_reason) {
  const Cell cell =
      cells(R"({"workload": "mlp", "backend": "fast", "mode": "graph", "precision": "bf16"})").at(0);
  EXPECT_EQ(cell.status, Status::unsupported);
  EXPECT_EQ(cell.reason_code, ReasonCode::axis_value_not_offered);
  EXPECT_THAT(cell.reason, AllOf(HasSubstr("precision"), HasSubstr("bf16"), HasSubstr("fp32")));
  const Cell gone = cells(R"({"workload": "mlp", "backend": "gone"})").at(0);
  EXPECT_EQ(gone.status, Status::unavailable);
  EXPECT_EQ(gone.reason_code, ReasonCode::backend_unavailable);
  EXPECT_THAT(gone.reason, AllOf(HasSubstr("not set up"), HasSubstr("set it up")));
}

TEST_F(MatrixTest, bad_names_are_refused_with_place_and_nearest) {
  EXPECT_THAT(error_of(R"({"workload": "lenet", "backend": "fast"})"),
              AllOf(HasSubstr("test.json"), HasSubstr("lenet5")));
  EXPECT_THAT(error_of(R"({"cells": [{"workload": "mlp", "backend": "fats"}]})"),
              AllOf(HasSubstr("cells[0]"), HasSubstr("fast")));
  EXPECT_THAT(error_of(R"({"workload": "mlp", "backend": "fast", "mode": "grpah"})"), HasSubstr("graph"));
  EXPECT_THAT(error_of(R"({"workload": "mlp", "backend": "fast", "dataset": "fashion"})"),
              HasSubstr("fashion-mnist"));
  EXPECT_THAT(error_of(R"({"backend": "fast"})"), HasSubstr("the workload is missing"));
  EXPECT_THAT(
      error_of(
          R"({"cells": [{"workload": "mlp", "backend": "fast"}, {"workload": "mlp", "backend": "fast"}]})"),
      HasSubstr("is a duplicate"));
}

TEST_F(MatrixTest, an_axis_without_effect_does_not_repeat_a_cell) {
  const auto ids = [this](const char* config) {
    std::multiset<std::string> found;
    for (const Cell& cell : cells(config)) found.insert(cell.axes.workload + " " + cell.axes.text("task"));
    return found;
  };
  EXPECT_EQ(ids(R"({"workload": ["mlp", "lstm"], "backend": "fast", "mode": "graph",
                    "embedding-gradient": ["dense", "sparse"]})"),
            (std::multiset<std::string>{"mlp train", "lstm train", "lstm train"}));
  EXPECT_EQ(ids(R"({"workload": "mlp", "backend": "fast", "mode": "graph", "task": ["train", "infer"],
                    "schedule": ["constant", "every:10x0.9"], "learning-rate": [0.1, 0.2]})"),
            (std::multiset<std::string>{"mlp infer", "mlp train", "mlp train", "mlp train", "mlp train"}));
  EXPECT_EQ(
      cells(R"({"workload": "mlp", "backend": "fast", "mode": "graph", "loader": ["resident", "harness"],
                      "loader-workers": [0, 1, 2]})")
          .size(),
      4U);
  EXPECT_THAT(error_of(R"({"workload": "mlp", "backend": "fast", "batch": [32, 32]})"),
              HasSubstr("is a duplicate"));
}

TEST_F(MatrixTest, rows_that_the_command_line_makes_alike_are_one_cell) {
  RunConfig config = config_from_json(nlohmann::json::parse(R"({"workload": "mlp", "backend": "fast",
      "mode": "graph", "source": "x", "cells": [
        {"batch": 8, "published": [{"metric": "epoch_time", "value": 2, "unit": "s"}]}, {"batch": 16}]})"),
                                      "test.json");
  EXPECT_EQ(expand(config, registries_).cells.size(), 2U);
  config.override_with(OptionValues{{"batch", {"32"}}});
  const std::vector<Cell> merged = expand(config, registries_).cells;
  ASSERT_EQ(merged.size(), 1U);
  EXPECT_EQ(merged[0].row, 0U);  // whose published value stays
  const RunConfig resumed = config_from_json(to_json(config), "report.json");
  EXPECT_EQ(expand(resumed, registries_).cells.size(), 1U);
  config.override_with(OptionValues{{"batch", {"32", "32"}}});
  EXPECT_THROW(expand(config, registries_), ConfigError);
}

TEST_F(MatrixTest, RefusesMoreCellsThanARunHas) {
  nlohmann::json config = {
      {"workload", "mlp"}, {"dataset", "synthetic"}, {"backend", "fast"}, {"mode", "graph"}};
  for (int batch = 1; batch <= 30'000; ++batch) config["batch"].push_back(batch);
  EXPECT_THAT(error_of(config.dump().c_str()), HasSubstr("makes 3e+04 cells, and a run has at most 20000"));
}

TEST_F(MatrixTest, RefusesMorePublishedNumbersThanARunCanName) {
  nlohmann::json config = {
      {"workload", "mlp"}, {"dataset", "synthetic"}, {"backend", "fast"}, {"mode", "graph"}};
  nlohmann::json row = nlohmann::json::object();
  for (int batch = 1; batch <= 150; ++batch) row["batch"].push_back(batch);
  for (int i = 0; i < 150; ++i)
    row["published"].push_back(
        {{"metric", "step_time"}, {"value", 2}, {"to", {{"batch", 1}}}, {"source", "s"}});
  config["cells"] = {row};
  EXPECT_THAT(error_of(config.dump().c_str()), HasSubstr("2.25e+04 published numbers"));
  config["cells"][0]["published"] = {config["cells"][0]["published"][0]};
  EXPECT_EQ(error_of(config.dump().c_str()), "");
}

TEST_F(MatrixTest, an_awaited_backend_makes_unavailable_cells) {
  add_awaited_backend(registry_, "far", {"eager", "xla"});
  add_awaited_backend(registry_, "fast", {"nonsense"});
  const auto made = cells(R"({"workload": "mlp", "backend": ["far", "fast"], "mode": ["xla", "graph"],
                              "device": "cuda", "layout": "channels_last"})");
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0].status, Status::unavailable);
  EXPECT_EQ(made[0].reason_code, ReasonCode::backend_unavailable);
  EXPECT_THAT(made[0].reason, HasSubstr("backends/far"));
  EXPECT_EQ(made[1].axes.mode, "graph") << "one that is here keeps its own modes";
  EXPECT_THAT(error_of(R"({"workload": "mlp", "backend": "farr"})"), HasSubstr("did you mean 'far'?"));
  EXPECT_THAT(error_of(R"({"workload": "mlp", "backend": "far", "mode": "xlaa"})"), HasSubstr("xla"));
}

TEST_F(MatrixTest, a_published_ratio_names_the_other_cell) {
  const auto made = cells(
      R"({"source": "s", "workload": "mlp", "cells": [
          {"backend": "fast", "mode": "graph", "batch": [16, 32], "epochs": 2, "published": [
              {"metric": "step_time", "value": 2, "to": {"backend": "other", "mode": "compile"}},
              {"metric": "step_time", "value": 3, "to": {"epochs": 4}},
              {"metric": "step_time", "value": 4}]},
          {"backend": "other", "mode": "compile", "batch": [16, 32], "epochs": 2}]})");
  ASSERT_EQ(made.size(), 4U);
  for (const std::size_t i : {0U, 1U}) {
    ASSERT_EQ(made[i].published.size(), 3U);
    EXPECT_EQ(made[i].published[0].to, made[i + 2].id);
    EXPECT_THAT(*made[i].published[1].to, ::testing::EndsWith("/epochs:4"));
    EXPECT_FALSE(made[i].published[2].to);
  }
  EXPECT_THAT(error_of(R"({"source": "s", "workload": "mlp", "backend": "fast", "cells": [{"published": [
                  {"metric": "step_time", "value": 2, "to": {"backend": "othre"}}]}]})"),
              HasSubstr("did you mean 'other'?"));
}

TEST_F(MatrixTest, a_schedule_other_than_the_workloads_is_in_the_id) {
  const auto made = cells(
      R"({"workload": "mlp", "backend": "fast", "mode": "graph", "schedule": ["constant", "every:10x0.90"],
          "learning-rate": [0.001, 0.01]})");
  ASSERT_EQ(made.size(), 4U);
  std::set<std::string> ids;
  for (const Cell& cell : made) ids.insert(cell.id);
  EXPECT_EQ(ids.size(), 4U);
  EXPECT_TRUE(made[0].axes.variant.empty()) << "as the workload has it";
  EXPECT_EQ(made[0].id.find('='), std::string::npos);
  EXPECT_THAT(made[3].id, HasSubstr("/learning-rate=0.01/schedule=every:10x0.9/"));
  EXPECT_EQ(made[3].hyper_parameters()["schedule"], "every:10x0.9");
  EXPECT_EQ(made[3].hyper_parameters()["learning_rate"], 0.01);
  EXPECT_EQ(made[3].hyper_parameters()["optimizer"]["beta1"], 0.9);
  EXPECT_NE(made[0].group(), made[3].group()) << "unlike training is not compared";
}

TEST_F(MatrixTest, augmentation_is_in_the_id_and_needs_images) {
  const auto made = cells(
      R"({"workload": "lenet5", "backend": "fast", "mode": "graph", "augmentation": ["none", "flip+crop:4"]})");
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0].id.find("augmentation"), std::string::npos);
  EXPECT_THAT(made[1].id, HasSubstr("/augmentation=crop:4+flip/"));
  EXPECT_EQ(made[1].network().augmentation, (Augmentation{4, true}));
  EXPECT_EQ(made[1].hyper_parameters()["augmentation"], "crop:4+flip");
  EXPECT_THAT(made[1].reproduce({}, 1), HasSubstr(" --augmentation crop:4+flip "));
  for (const char* bad : {"crop", "crop:0", "crop:4+", "flip+flip", "crop:1+crop:2", "", "crop:4x", "turn"})
    EXPECT_THROW(Augmentation::parse(bad), DataError) << bad;
  EXPECT_THAT(error_of(R"({"workload": "lenet5", "backend": "fast", "augmentation": "flop"})"),
              HasSubstr("must be none, crop:PIXELS"));
}

TEST_F(MatrixTest, InitialValuesArePartOfTheIdentity) {
  registry_.backends[0].initial = InitialScheme::torch;
  const auto made = cells(R"({"workload": "lenet5", "backend": "fast", "mode": "graph",
                              "initial": ["workload", "own", "keras"]})");
  ASSERT_EQ(made.size(), 3U);
  EXPECT_EQ(made[0].id.find("initial"), std::string::npos);
  EXPECT_EQ(made[0].initial_scheme(), std::nullopt);
  EXPECT_THAT(made[1].id, HasSubstr("/initial=own/"));
  EXPECT_EQ(made[1].initial_scheme(), InitialScheme::torch);
  EXPECT_EQ(made[2].initial_scheme(), InitialScheme::keras);
  EXPECT_THAT(made[2].reproduce({}, 1), HasSubstr(" --initial keras "));
  EXPECT_NE(made[0].group(), made[1].group());
}

TEST_F(MatrixTest, OwnInitialValuesNeedABackendWithLayers) {
  const auto made = cells(R"({"workload": "lenet5", "backend": "fast", "mode": "graph", "initial": "own"})");
  EXPECT_EQ(made.at(0).status, Status::unsupported);
  EXPECT_EQ(made.at(0).reason_code, ReasonCode::axis_value_not_offered);
  EXPECT_THAT(error_of(R"({"workload": "lstm", "backend": "fast", "mode": "graph", "initial": "keras"})"),
              HasSubstr("of the op lstm"));
}

TEST_F(MatrixTest, EpsilonAndNormMomentumReachTheProgram) {
  const auto made =
      cells(R"({"workload": "lenet5", "backend": "fast", "mode": "graph", "epsilon": [1e-8, 1e-7]})");
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0].id.find("epsilon"), std::string::npos) << "it is Adam's own";
  EXPECT_THAT(made[1].id, HasSubstr("/epsilon=1e-07/"));
  EXPECT_EQ(made[1].program->optimizer->epsilon, 1e-7);
  EXPECT_EQ(made[1].hyper_parameters()["optimizer"]["epsilon"], 1e-7);
  EXPECT_THAT(error_of(R"({"workload": "lenet5", "backend": "fast", "optimizer": "sgd", "epsilon": 1e-7})"),
              HasSubstr("sgd has no epsilon"));
  const std::shared_ptr<const Program> program =
      cells(R"({"workload": "resnet56", "dataset": "synthetic", "backend": "fast", "mode": "graph",
                "norm-momentum": 0.9})")
          .at(0)
          .program;
  for (const Graph* graph : {&program->training.value(), &program->inference})
    for (const Node& node : graph->nodes())
      if (node.op->name() == "batch_norm") {
        EXPECT_EQ(node.attributes.get<double>("momentum"), 0.9);
      }
}

TEST_F(MatrixTest, RawPixelsNeedImages) {
  const auto made =
      cells(R"({"workload": "lenet5", "backend": "fast", "mode": "graph", "pixels": ["scaled", "raw"]})");
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0].id.find("pixels"), std::string::npos);
  EXPECT_THAT(made[1].id, HasSubstr("/pixels=raw/"));
  EXPECT_TRUE(made[1].network().raw_pixels);
  EXPECT_THAT(error_of(R"({"workload": "lstm", "backend": "fast", "pixels": "raw"})"),
              HasSubstr("applies only to images"));
}

TEST_F(MatrixTest, weight_decay_is_part_of_the_identity_and_of_the_program) {
  const auto made = cells(
      R"({"workload": "mlp", "backend": "fast", "mode": "graph", "weight-decay": [0, 2e-4], "optimizer": ["adam", "sgd"]})");
  ASSERT_EQ(made.size(), 4U);
  for (const Cell& cell : made) {
    EXPECT_EQ(cell.program->optimizer->weight_decay, cell.network().weight_decay);
    EXPECT_EQ(cell.network().weight_decay != 0, cell.axes.variant.contains("weight-decay"));
    EXPECT_EQ(cell.hyper_parameters()["optimizer"]["weight_decay"], cell.network().weight_decay);
  }
  EXPECT_THAT(made[3].id, HasSubstr("/weight-decay=0.0002/"));
}

TEST_F(MatrixTest, ClippingIsPartOfTheIdentityAndOfTheProgram) {
  const auto made = cells(
      R"({"workload": "mlp", "backend": "fast", "mode": "graph", "clip-norm": [0, 1.5], "optimizer": ["adamw", "sgd"]})");
  ASSERT_EQ(made.size(), 4U);
  for (const Cell& cell : made) {
    const OptimizerSpec optimizer = cell.program->optimizer.value();
    const nlohmann::json reported = cell.hyper_parameters()["optimizer"];
    const bool clips = cell.axes.variant.contains("clip-norm");
    EXPECT_EQ(optimizer.kind, cell.axes.optimizer);
    EXPECT_EQ(optimizer.clip_norm, clips ? 1.5 : 0);
    EXPECT_EQ(reported.contains("clip_norm"), clips) << reported;
    EXPECT_EQ(reported.contains("beta2"), optimizer.kind == "adamw") << reported;
  }
  EXPECT_THAT(made[3].id, HasSubstr("/clip-norm=1.5/"));
}

TEST_F(MatrixTest, ALoaderWithABudgetLeavesTheThreadsToTheComputation) {
  struct Expected {
    const char* axes;
    int compute, all;
  };
  for (const auto& [axes, compute, all] :
       {Expected{R"("threads": 4, "loader-workers": 3)", 1, 4},
        Expected{R"("threads": 4, "loader-workers": 3, "loader-threads": 2)", 3, 6},
        Expected{R"("threads": 4, "loader-workers": 2, "loader-threads": 4)", 4, 6},
        Expected{R"("threads": 4, "loader-workers": 0, "loader-threads": 4)", 4, 4},
        Expected{R"("threads": 4, "loader": "resident", "loader-threads": 4)", 4, 4}}) {
    const std::string config =
        R"({"workload": "mlp", "backend": "fast", "mode": "graph", "steps": 5, "loader": "harness", )";
    const nlohmann::json with = nlohmann::json::parse("{" + std::string(axes) + "}");
    nlohmann::json whole = nlohmann::json::parse(config + R"("task": "train"})");
    whole.update(with);
    const Cell cell = cells(whole.dump().c_str()).at(0);
    EXPECT_EQ(cell.compute_threads(), compute) << axes;
    EXPECT_EQ(cell.axes.all_threads(), all) << axes;
  }
}

TEST_F(MatrixTest, ABudgetOfTheLoaderIsNamedAndTakenFromTheDefaultOfThreads) {
  const char* config =
      R"({"workload": "mlp", "backend": "fast", "mode": "graph", "steps": 5, "loader": "harness",
                          "loader-workers": 1, "loader-threads": 100000})";
  EXPECT_THAT(error_of(config), HasSubstr("[loader-threads]"));
  const char* most =
      R"({"workload": "mlp", "backend": "fast", "mode": "graph", "steps": 5, "loader": "harness",
                        "loader-workers": 1, "loader-threads": 1024})";
  const Cell cell = cells(most).at(0);
  EXPECT_EQ(cell.axes.threads, 1) << "a machine with fewer processors";
  EXPECT_THAT(cell.id, HasSubstr("/loader-threads=1024"));
}

TEST_F(MatrixTest, FewerThreadsThanTeamsAreUnsupported) {
  registry_.backends[0].thread_teams = {{"graph", 2}};
  const char* config =
      R"({"workload": "mlp", "backend": "fast", "mode": ["graph", "eager"], "steps": 5, "loader": "harness",
                          "threads": [1, 2, 3], "loader-workers": [0, 1]})";
  int refused = 0;
  for (const Cell& cell : cells(config)) {
    const bool too_few = cell.axes.mode == "graph" && cell.compute_threads() < 2;
    EXPECT_EQ(cell.status, too_few ? Status::unsupported : Status::ok) << cell.id;
    if (!too_few) continue;
    ++refused;
    EXPECT_EQ(cell.reason_code, ReasonCode::axis_value_not_offered);
    EXPECT_THAT(cell.reason, HasSubstr(cell.axes.loader_workers == 0 ? "--threads 2" : "--threads 3"));
  }
  EXPECT_EQ(refused, 3);
}

TEST_F(MatrixTest, RunningAccuracyIsUnsupportedInAModeThatCountsNone) {
  registry_.backends[0].running_accuracy = {"eager"};
  const auto made = cells(
      R"({"workload": "mlp", "backend": "fast", "mode": ["graph", "eager"], "running-accuracy": [true, false]})");
  ASSERT_EQ(made.size(), 4U);
  for (const Cell& cell : made) {
    const bool asked = cell.axes.flag("running-accuracy"), lacks = asked && cell.axes.mode == "graph";
    EXPECT_EQ(cell.status, lacks ? Status::unsupported : Status::ok) << cell.id;
    if (lacks) {
      EXPECT_THAT(cell.reason, HasSubstr("--mode eager"));
    }
  }
}

TEST_F(MatrixTest, memory_share_is_unsupported_without_a_limit) {
  registry_.backends[0].devices = {DeviceKind::cpu, DeviceKind::cuda};
  registry_.backends[0].memory_limits = {DeviceKind::cuda};
  const auto made = cells(
      R"({"workload": "mlp", "backend": "fast", "mode": "graph", "device": ["cpu", "cuda"],
          "memory-fraction": [0.99, 0.05]})");
  ASSERT_EQ(made.size(), 4U);
  for (const Cell& cell : made) {
    const bool honoured = cell.axes.device == DeviceKind::cuda;
    EXPECT_EQ(cell.status, honoured ? Status::ok : Status::unsupported) << cell.id;
    if (!honoured) {
      EXPECT_EQ(cell.reason_code, ReasonCode::no_memory_limit);
    }
  }
  EXPECT_EQ(made[0].axes.number("memory-fraction"), 0.99);
  EXPECT_THAT(made[0].id, HasSubstr("/memory-fraction=0.99/"));
  const auto capped = cells(R"({"workload": "mlp", "backend": "fast", "mode": "graph", "memory-cap": 6})");
  EXPECT_EQ(capped.at(0).status, Status::unsupported);
  EXPECT_THAT(error_of(R"({"workload": "mlp", "backend": "fast", "memory-fraction": 1.5})"),
              HasSubstr("0.01 to 1"));
}

TEST_F(MatrixTest, a_quick_run_has_few_batches_and_an_id_with_that) {
  const Cell quick =
      cells(
          R"({"workload": "mlp", "backend": "fast", "mode": "graph", "epochs": 15, "batch": 32, "quick": true})")
          .at(0);
  EXPECT_EQ(quick.measure.epochs, 1);
  EXPECT_EQ(quick.axes.integer("samples"), 320);
  EXPECT_THAT(quick.id, HasSubstr("/samples=320/"));
  EXPECT_EQ(quick.distinct, 2);
  const Cell said =
      cells(
          R"({"workload": "mlp", "backend": "fast", "mode": "graph", "epochs": 15, "batch": 32, "quick": true,
                              "when-quick": {"samples": 64, "batch": 8}})")
          .at(0);
  EXPECT_EQ(said.axes.integer("samples"), 64);
  EXPECT_EQ(said.axes.batch, 8);
}

TEST_F(MatrixTest, inference_has_no_schedule) {
  const auto made = cells(
      R"({"workload": "mlp", "backend": "fast", "mode": "graph", "task": "infer", "schedule": "every:10x0.9"})");
  EXPECT_TRUE(made.at(0).axes.variant.empty());
  EXPECT_TRUE(made.at(0).hyper_parameters().empty());
}

TEST_F(MatrixTest, embedding_gradient_is_an_axis_of_workloads_with_one) {
  const auto made = cells(
      R"({"workload": "lstm", "backend": "fast", "mode": "graph", "embedding-gradient": ["dense", "sparse"]})");
  ASSERT_EQ(made.size(), 2U);
  EXPECT_TRUE(made[0].axes.variant.empty());
  EXPECT_THAT(made[1].id, HasSubstr("/embedding-gradient=sparse"));
  EXPECT_THAT(made[1].reproduce({}, 1), HasSubstr("--embedding-gradient sparse"));
  const auto attributes = [](const Cell& cell) {
    const Program& program = *cell.program;
    return program.training->node(program.training->find_node("embedding")).attributes;
  };
  EXPECT_FALSE(attributes(made[0]).has("sparse_gradient"));
  EXPECT_TRUE(attributes(made[1]).get<bool>("sparse_gradient"));
  const auto other =
      cells(R"({"workload": "mlp", "backend": "fast", "mode": "graph", "embedding-gradient": "sparse"})");
  EXPECT_TRUE(other.at(0).axes.variant.empty()) << "it has none";
}

TEST_F(MatrixTest, lazy_adam_needs_sparse_gradients) {
  const auto made = cells(
      R"({"workload": "lstm", "backend": "fast", "mode": "graph", "optimizer": "lazy_adam",
          "embedding-gradient": ["dense", "sparse"]})");
  EXPECT_EQ(made.at(0).status, Status::unsupported);
  EXPECT_EQ(made.at(0).reason_code, ReasonCode::sparse_gradients_needed);
  EXPECT_TRUE(made.at(1).runnable());
}

TEST_F(MatrixTest, distinguishes_texts_and_images) {
  EXPECT_THAT(error_of(R"({"workload": "lstm", "backend": "fast", "dataset": "fashion-mnist"})"),
              HasSubstr("use a data set of texts of 5000 words"));
}

TEST_F(MatrixTest, a_bad_schedule_is_refused_before_anything_is_run) {
  EXPECT_THAT(error_of(R"({"workload": "mlp", "backend": "fast", "schedule": "cosne"})"),
              HasSubstr("unknown schedule 'cosne'"));
  EXPECT_THAT(error_of(R"({"workload": "mlp", "backend": "fast", "schedule": "cosine"})"),
              HasSubstr("no number of epochs"));
  EXPECT_EQ(error_of(R"({"workload": "mlp", "backend": "fast", "schedule": "cosine", "epochs": 3})"), "");
}

TEST_F(MatrixTest, every_workload_has_a_schedule_that_can_be_read) {
  for (const Workload& workload : all_workloads()) {
    EXPECT_EQ(RateSchedule::parse(workload.schedule).text(), workload.schedule) << workload.name;
  }
}

TEST_F(MatrixTest, the_reproduce_line_makes_the_same_cell) {
  const Cell cell =
      cells(R"({"workload": "lenet5", "backend": "fast", "mode": "eager", "batch": 64, "steps": 30,
                              "optimizer": "sgd", "dataset": "synthetic", "learning-rate": 0.0125, "schedule": "warmup:5+every:10x0.9"})")
          .at(0);
  const std::string line = cell.reproduce({}, 9);
  OptionValues given;
  std::size_t at = line.find("--");
  while (at != std::string::npos) {
    const std::size_t space = line.find(' ', at), next = line.find(" --", at + 1);
    const std::string name = line.substr(at + 2, space - at - 2);
    set_option(given, require_option(name, ""),
               line.substr(space + 1, next == std::string::npos ? next : next - space - 1), "");
    at = next == std::string::npos ? next : next + 1;
  }
  const Cell again = expand(config_of(given), registries_).cells.at(0);
  EXPECT_EQ(again.id, cell.id);
  EXPECT_EQ(again.measure.steps, 30);
  EXPECT_EQ(again.network().learning_rate, 0.0125);
  EXPECT_EQ(again.network().schedule.text(), "warmup:5+every:10x0.9");
}

TEST_F(MatrixTest, TheReproduceLineNamesAnotherInterpreter) {
  Cell cell = cells(R"({"workload": "mlp", "backend": "fast", "mode": "eager"})").at(0);
  BackendDescription other = *cell.backend;
  other.framework = "jax";
  other.interpreter = "/opt/jax 0.9/bin/python";
  EXPECT_THAT(cell.reproduce({}, 1), Not(HasSubstr("--interpreter")));
  cell.backend = &other;
  EXPECT_THAT(cell.reproduce({}, 1), HasSubstr(" --interpreter '"));
  EXPECT_THAT(cell.reproduce({}, 1), HasSubstr("jax=/opt/jax 0.9/bin/python"));
}

TEST_F(MatrixTest, TheReproduceLineNamesFilesAndVariablesOfTheRun) {
  const RunConfig config = config_from_json(nlohmann::json::parse(R"({"backend": "fast", "mode": "eager",
      "data": ["sets", "/my data"], "weights": "w.safetensors", "time-limit": "10m",
      "environment": ["OMP_PLACES={0},{1}"], "cells": [{"workload": "minilm"}, {"workload": "op/relu", "size": "4096"}]})"),
                                            "test.json");
  const auto made = expand(config, registries_).cells;
  const std::string network = made.at(0).reproduce(settings_of(config), 1);
  EXPECT_THAT(network, HasSubstr(" --data sets --data '/my data' --weights w.safetensors "
                                 "--environment 'OMP_PLACES={0},{1}' --forks 1 --seed 1"));
  EXPECT_THAT(made.at(1).reproduce(settings_of(config), 1), Not(HasSubstr("--data")))
      << "it reads no samples";
  RunSettings other;
  other.time_limit = 5;
  other.roofline = "true";
  EXPECT_THAT(made.at(1).reproduce(other, 1), HasSubstr(" --time-limit 5 --roofline true --forks 1"));
}

TEST_F(MatrixTest, TheReproduceLineHasEachSettingThatIsNotTheDefault) {
  const Cell cell =
      cells(R"({"workload": "lenet5", "backend": "fast", "mode": "eager", "dataset": "synthetic",
                              "steps": 30, "block-seconds": 0.02, "warm-up-steps": 1000000, "warm-up-seconds": 0.05,
                              "resident-batches": 3, "distinct": 8, "samples": 640})")
          .at(0);
  EXPECT_THAT(
      cell.reproduce({}, 1),
      AllOf(HasSubstr(" --steps 30 --warm-up-steps 1000000 --warm-up-seconds 0.05 --block-seconds 0.02 "),
            HasSubstr(" --resident-batches 3 --distinct 8 --forks"), HasSubstr(" --samples 640 ")));
  const auto unchecked = cells(R"({"workload": "mlp", "backend": "fast", "mode": "eager", "check": false})");
  EXPECT_THAT(unchecked.at(0).reproduce({}, 1), HasSubstr(" --check=false "));
  const auto epochs = cells(R"({"workload": "mlp", "backend": "fast", "mode": "eager", "epochs": 2})");
  EXPECT_THAT(epochs.at(0).reproduce({}, 1), HasSubstr(" --epochs 2 --forks 1 --seed 1"));
}

TEST_F(MatrixTest, rows_that_are_equal_under_quick_are_one_cell) {
  const auto rows = [](const char* quick) {
    return fmt::format(R"({{"workload": "mlp", "backend": "fast", "mode": "graph", "quick": {},
                           "cells": [{{"epochs": 5}}, {{"epochs": 10}}]}})",
                       quick);
  };
  EXPECT_EQ(cells(rows("false").c_str()).size(), 2U);
  const auto quick = cells(rows("true").c_str());
  ASSERT_EQ(quick.size(), 1U);
  EXPECT_EQ(quick[0].measure.epochs, 1);
}

TEST(RunSettings, QuickRunHasOneForkUnlessMoreAreRequested) {
  const auto forks = [](const char* json) {
    return settings_of(config_from_json(nlohmann::json::parse(json), "test.json")).forks;
  };
  EXPECT_EQ(forks(R"({"workload": "mlp", "forks": 6})"), 6);
  EXPECT_EQ(forks(R"({"name": "study", "workload": "mlp", "forks": 6, "quick": true})"), 1);
  EXPECT_EQ(forks(R"({"workload": "mlp", "forks": 6, "quick": true})"), 6) << "the user's own --forks";
  EXPECT_EQ(forks(R"({"workload": "mlp", "forks": 0, "quick": true})"), 0);
}

TEST(RunSettings, SpareRoundsAreAsManyAsTheForks) {
  const auto spare = [](const char* json) {
    return settings_of(config_from_json(nlohmann::json::parse(json), "test.json")).spare_rounds;
  };
  EXPECT_EQ(spare(R"({"workload": "mlp", "forks": 1})"), 0);
  EXPECT_EQ(spare(R"({"workload": "mlp", "forks": 2})"), 0);
  EXPECT_EQ(spare(R"({"workload": "mlp", "forks": 6})"), 6);
  EXPECT_EQ(spare(R"({"workload": "mlp", "forks": 6, "spare-rounds": 0})"), 0);
  EXPECT_EQ(spare(R"({"workload": "mlp", "forks": 6, "quick": true})"), 0);
}

TEST(RunSettings, RoundsAlternateBetweenTheExams) {
  const auto seeds = [](const char* json) {
    const RunSettings settings = settings_of(config_from_json(nlohmann::json::parse(json), "test.json"));
    return std::vector{settings.exam_seed_of(0), settings.exam_seed_of(1), settings.exam_seed_of(2)};
  };
  EXPECT_EQ(seeds(R"({"workload": "mlp", "seed": 7})"), (std::vector<std::uint64_t>{7, 8, 7}));
  EXPECT_EQ(seeds(R"({"workload": "mlp", "seed": 7, "exams": 3})"), (std::vector<std::uint64_t>{7, 8, 9}));
  EXPECT_EQ(seeds(R"({"workload": "mlp", "exams": 1})"), (std::vector<std::uint64_t>{1, 1, 1}));
}

TEST_F(MatrixTest, made_images_have_any_size_and_number_of_classes) {
  const auto made =
      cells(R"({"workload": "resnet50", "dataset": "synthetic", "backend": "fast", "mode": "graph",
                              "image-size": [224, 64], "classes": 10})");
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0].id.find("image-size"), std::string::npos) << "its own size is no variant";
  EXPECT_THAT(made[1].id, AllOf(HasSubstr("/image-size=64/"), HasSubstr("/classes=10/")));
  EXPECT_THAT(made[1].reproduce({}, 1), AllOf(HasSubstr(" --image-size 64 "), HasSubstr(" --classes 10 ")));
  const Graph& graph = made[1].program->inference;
  EXPECT_EQ(graph.value(graph.find("inputs")).type.shape, (Shape{32, 3, 64, 64}));
  EXPECT_EQ(graph.value(graph.output("logits")).type.shape, (Shape{32, 10}));
}

TEST_F(MatrixTest, SequencesHaveAnyLength) {
  const auto made = cells(R"({"workload": "lstm", "dataset": "synthetic", "backend": "fast", "mode": "graph",
                              "sequence-length": [500, 64]})");
  ASSERT_EQ(made.size(), 2U);
  EXPECT_EQ(made[0].id.find("sequence-length"), std::string::npos) << "its own length is no variant";
  EXPECT_THAT(made[1].id, HasSubstr("/sequence-length=64/"));
  EXPECT_THAT(made[1].reproduce({}, 1), HasSubstr(" --sequence-length 64 "));
  const Graph& graph = made[1].program->training.value();
  EXPECT_EQ(graph.value(graph.find("inputs")).type.shape, (Shape{32, 64}));

  const auto gpt =
      cells(R"({"workload": "nanogpt", "dataset": "synthetic", "backend": "fast", "mode": "graph",
                             "sequence-length": 32})");
  ASSERT_EQ(gpt.size(), 1U);
  const Graph& training = gpt[0].program->training.value();
  EXPECT_EQ(training.value(training.find("labels")).type.shape, (Shape{12, 32}));
}

TEST_F(MatrixTest, RefusesASequenceLengthThatTheNetworkOrTheDataSetDoesNotHave) {
  EXPECT_THAT(
      error_of(R"({"workload": "lenet5", "dataset": "synthetic", "backend": "fast", "sequence-length": 32})"),
      AllOf(HasSubstr("[sequence-length] got 32"), HasSubstr("applies only to sequences")));
  EXPECT_THAT(
      error_of(R"({"workload": "lstm", "dataset": "imdb", "backend": "fast", "sequence-length": 32})"),
      AllOf(HasSubstr("[sequence-length] got 32"), HasSubstr("imdb")));
  EXPECT_THAT(
      error_of(
          R"({"workload": "minilm", "dataset": "synthetic", "backend": "fast", "sequence-length": 513})"),
      AllOf(HasSubstr("513"), HasSubstr("512 positions")));
}

TEST_F(MatrixTest, RefusesADataSetWithOtherLabelsThanTheNetworkPredicts) {
  EXPECT_THAT(error_of(R"({"workload": "nanogpt", "dataset": "npy", "backend": "fast"})"),
              AllOf(HasSubstr("[nanogpt] got the data set npy"), HasSubstr("next token")));
  EXPECT_THAT(error_of(R"({"workload": "lstm", "dataset": "text", "backend": "fast"})"),
              HasSubstr("[lstm] got the data set text"));
}

TEST_F(MatrixTest, refuses_size_and_classes_that_the_data_set_fixes) {
  EXPECT_THAT(error_of(R"({"workload": "lenet5", "dataset": "mnist", "backend": "fast", "image-size": 32})"),
              AllOf(HasSubstr("[image-size] got 32"), HasSubstr("mnist")));
  EXPECT_THAT(
      error_of(R"({"workload": "lstm", "dataset": "synthetic", "backend": "fast", "image-size": 32})"),
      HasSubstr("applies only to images"));
  EXPECT_THAT(
      error_of(R"({"workload": "resnet50", "dataset": "imagenet", "backend": "fast", "classes": 10})"),
      AllOf(HasSubstr("[classes] got 10"), HasSubstr("imagenet")));
}

TEST_F(MatrixTest, RefusesANetworkThatNeedsMoreMemoryThanThereIs) {
  const Cell huge = cells(
      R"({"workload": "mlp", "dataset": "synthetic", "backend": "fast", "mode": "graph", "batch": 16777216,
          "classes": 1000000})")[0];
  EXPECT_EQ(huge.reason_code, ReasonCode::not_enough_memory);
  EXPECT_THAT(huge.reason, AllOf(HasSubstr("it takes at least 62502."), HasSubstr("GiB are available")));
  const Cell usual =
      cells(R"({"workload": "mlp", "dataset": "synthetic", "backend": "fast", "mode": "graph"})")[0];
  EXPECT_TRUE(usual.runnable());
  // 3 layers in the conductor and the worker, and gradients and two moments of Adam.
  const Program& program = *usual.program;
  std::int64_t parameters = 0;
  for (const ValueId id : program.training->with_role(Role::parameter))
    parameters += program.training->value(id).type.bytes();
  EXPECT_GE(least_memory(program, Task::train), 5 * parameters);
  EXPECT_LT(least_memory(program, Task::train), 6 * parameters);
  EXPECT_LT(least_memory(program, Task::infer), 3 * parameters);
}

// A cell of a network on arrays of the user, of 10 classes, with `own` labels for each sample.
std::string error_with_labels(const char* workload, std::int64_t own, std::int64_t of_network, Task task) {
  Workload network = find_workload(workload);
  network.positions = of_network;
  NetworkCell cell;
  cell.workload = &network;
  cell.own_classes = 10;
  cell.own_positions = own;
  Axes axes;
  axes.workload = workload;
  axes.dataset = "npy";
  axes.task = task;
  axes.batch = 2;
  axes.optimizer = "adam";
  try {
    cell.form(axes);
  } catch (const GraphError& error) {
    return error.what();
  }
  return "";
}

TEST(LabelsOfAnOwnSet, AreThoseThatTheNetworkIsTrainedOn) {
  EXPECT_EQ(error_with_labels("lenet5", 0, 0, Task::train), "");
  EXPECT_EQ(error_with_labels("lenet5", 7, 7, Task::train), "");
  EXPECT_THAT(error_with_labels("lenet5", 10, 0, Task::train),
              AllOf(HasSubstr("[lenet5] got the data set npy, which has labels of the shape (N, 10)"),
                    HasSubstr("use one that has one label a sample"), HasSubstr("labels.argmax(axis=1)")));
  EXPECT_THAT(error_with_labels("lenet5", 1, 0, Task::train), HasSubstr("labels.reshape(-1)"));
  EXPECT_THAT(error_with_labels("lenet5", 0, 1, Task::train),
              HasSubstr("use one that has labels of the shape (N, 1)"));
  EXPECT_EQ(error_with_labels("lenet5", 0, 7, Task::infer), "") << "inference reads none";
}

}  // namespace
}  // namespace assay
