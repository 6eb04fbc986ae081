// Networks with several inputs and outputs: each sample has all inputs, and each output is judged by its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>
#include <memory>

#include <nlohmann/json.hpp>

#include "harness/conductor/run/run.hpp"
#include "harness/core/error.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/passes/batch.hpp"
#include "harness/report/invariants.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/workloads/checked_cell.hpp"
#include "tests/workloads/our_backends.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t two_tokens = 3, two_words = 7, two_width = 4, two_features = 6, two_classes = 5;

// Real numbers and tokens in; their common features and the scores of the classes out.
Graph two_graph(std::int64_t batch, bool mistaken = false) {
  Graph graph("two");
  GraphBuilder b(graph, false);
  const ValueId real = graph.add_value("real", {DType::f32, {batch, two_features}}, Role::input, "signal");
  const ValueId text = graph.add_value("text", {DType::i32, {batch, two_tokens}}, Role::input, "below:7");
  const ValueId words_of_text = b.flatten(b.embedding("table", text, two_words, two_width), "flat");
  const ValueId x = b.linear("fc1", real, two_tokens * two_width);
  const ValueId common = b.add(mistaken ? x : b.relu(x, "relu"), words_of_text);
  graph.add_output("features", common);
  graph.add_output("scores", b.linear("head", common, two_classes));
  return graph;
}

Program two_inputs(std::int64_t batch, bool mistaken = false) {
  return {.training = {}, .inference = two_graph(batch, mistaken)};
}

std::vector<std::string> names(const Judged& judged) {
  std::vector<std::string> found;
  for (const TensorVerdict& tensor : judged.exam.tensors) found.push_back(tensor.name);
  return found;
}

TEST(PackedInputs, FollowEachOtherInASample) {
  const Program program = two_inputs(8);
  check_program(program);
  EXPECT_TRUE(packs_inputs(program));
  const auto inputs = packed_inputs(program.inference, batch_of(program));
  EXPECT_EQ(inputs.at("real").offset, 0);
  EXPECT_EQ(inputs.at("real").elements, two_features);
  EXPECT_EQ(inputs.at("text").offset, two_features);
  EXPECT_EQ(inputs.at("text").elements, two_tokens);
}

TEST(PackedInputs, NeedARowForEachSample) {
  Program program = two_inputs(8);
  program.inference.add_value("other", {DType::f32, {4, 2}}, Role::input, "signal");
  EXPECT_THAT([&] { check_program(program); },
              ::testing::ThrowsMessage<GraphError>(HasSubstr("'other' f32 (4, 2) must have a row for each")));
}

class PackedInputsOf : public ::testing::TestWithParam<std::string> {};

TEST_P(PackedInputsOf, AgreeWithTheOracleByOutput) {
  for (const std::string& mode : modes_of(GetParam())) {
    const std::unique_ptr<Backend> backend = make_backend(GetParam());
    const Judged judged = judge_backend(*backend, two_inputs(8), {Task::infer, mode, PrecisionKind::fp32, 1});
    EXPECT_TRUE(judged.passed()) << mode << '\n' << judged.text();
    EXPECT_THAT(names(judged), ElementsAre("features", "scores"));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, PackedInputsOf, ::testing::ValuesIn(our_backends()),
                         [](const auto& test) { return test.param; });

// Computes another network.
class Mistaken final : public Backend {
 public:
  explicit Mistaken(Program instead) : instead_(std::move(instead)) {}
  BackendInfo info() const override { return {}; }
  std::string unsupported(const Program&, const CompileOptions&) const override { return {}; }
  std::unique_ptr<Executable> compile(const Program&, const CompileOptions& options) override {
    return backend_->compile(instead_, options);
  }

 private:
  Program instead_;
  std::unique_ptr<Backend> backend_ = make_backend("reference");
};

TEST(PackedInputs, AMistakeInOneOutputIsFound) {
  Mistaken backend(two_inputs(8, true));
  const Judged judged = judge_backend(backend, two_inputs(8), {Task::infer, "graph", PrecisionKind::fp32, 1});
  EXPECT_FALSE(judged.passed());
  EXPECT_GT(judged.find("features")->ratio, 1);
}

TEST(PackedInputs, AWorkloadMadeFromAGraphRunsOnOurBackends) {
  const TemporaryFolder folder;
  ::setenv("ASSAY_CACHE", (folder.path() / "cache").c_str(), 1);
  Registries registries;
  registries.backends = find_backends_in({ASSAY_BUILT_BACKENDS}, {});
  registries.workloads.add(workload_of(two_graph(2)));
  RunRequest request;
  request.config = config_from_json({{"workload", "two"},
                                     {"backend", our_backends()},
                                     {"task", "infer"},
                                     {"mode", "graph"},
                                     {"threads", 1},
                                     {"batch", 6},
                                     {"steps", 20},
                                     {"warm-up-seconds", 0},
                                     {"forks", 2}},
                                    "test.json");
  request.out = folder.path() / "report.json";
  Progress progress = Progress::quiet();
  const Report report = run(request, cells_of(request, registries), registries, progress).report;
  EXPECT_THAT(invariant_violations(report), IsEmpty());
  for (const CellReport& cell : report.cells) {
    EXPECT_EQ(cell.status, Status::ok) << cell.id << ": " << cell.reason;
    EXPECT_TRUE(cell.equivalence.passed) << cell.id;
  }
  EXPECT_EQ(workload_of(two_graph(2)).parameters, 7 * 4 + 6 * 12 + 12 + 12 * 5 + 5);
  request.config.values["task"] = {"train"};
  EXPECT_THROW(cells_of(request, registries), ConfigError);
}

}  // namespace
}  // namespace assay
