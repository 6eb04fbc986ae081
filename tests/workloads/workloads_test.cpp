// Each workload, on each backend of ours, agrees with the reference in fp64.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "backends/reference/reference_backend.hpp"
#include "harness/graph/passes/recompute.hpp"
#include "tests/nightly.hpp"
#include "tests/workloads/altered_backend.hpp"
#include "tests/workloads/checked_cell.hpp"
#include "tests/workloads/our_backends.hpp"
#include "tests/workloads/trap_program.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

// A named network of this build, or the one with every trap.
Program program_of(const std::string& name, const OptimizerSpec& optimizer = {}) {
  if (name == "traps") return trap_program(24, optimizer);
  const Workload& workload = find_workload(name);
  return workload.small.batch > 0 ? workload.build_small() : workload.build(workload.batch);
}

struct Case {
  std::string backend, program;
  PrecisionKind precision;
  bool bare = false;  // in mode primitives; else in the others
};

void PrintTo(const Case& c, std::ostream* stream) {
  *stream << c.backend << ' ' << c.program << ' ' << to_string(c.precision) << (c.bare ? " primitives" : "");
}

std::string name_of(const ::testing::TestParamInfo<Case>& test) {
  std::string name =
      test.param.backend + "_" + test.param.program + "_" + std::string(to_string(test.param.precision));
  if (test.param.bare) name += "_primitives";
  std::ranges::replace(name, '-', '_');
  return name;
}

// Networks whose check takes minutes.
bool is_deep(const Workload& workload) {
  return workload.name.starts_with("resnet") || element_count(workload.sample_shape) > 3 * 64 * 64;
}

std::vector<Case> networks() {
  std::vector<Case> all;
  all.push_back({"reference", "traps", PrecisionKind::tf32});
  for (const std::string& backend : our_backends()) {
    for (PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16}) {
      all.push_back({backend, "traps", precision});
      for (const Workload& workload : all_workloads()) {
        const bool slow = workload.name == "cnn" && precision == PrecisionKind::bf16;  // lenet5 says as much
        if (!slow && (nightly() || !is_deep(workload))) all.push_back({backend, workload.name, precision});
      }
    }
  }
  for (std::size_t i = 0, usual = all.size(); i < usual; ++i) {
    if (all[i].backend != "onednn") continue;
    Case bare = all[i];
    bare.bare = true;
    all.push_back(std::move(bare));
  }
  return all;
}

class Checked : public ::testing::TestWithParam<Case> {
 protected:
  bool small() const { return GetParam().program == "traps"; }
  // The executor's modes differ in plans and fusions; the plain mode of the slow reference is held by the
  // small network.
  std::vector<std::string> modes() const {
    const bool slow = GetParam().backend == "reference" && !small();
    if (slow || GetParam().bare) return {planned_mode()};
    return {"graph", "eager"};
  }
  std::string planned_mode() const { return GetParam().bare ? "primitives" : "graph"; }
  // Empty, or why this backend cannot.
  std::string judge(const Program& program, Task task, const std::string& mode, Judged& judged) {
    const std::unique_ptr<Backend> backend = make_backend(GetParam().backend);
    const CheckedCell cell{task, mode, GetParam().precision, small() ? 1 : 2};
    CompileOptions options;
    options.task = task;
    options.mode = mode;
    options.precision = precision_of(cell.precision);
    options.threads = cell.threads;
    if (std::string reason = backend->unsupported(program, options); !reason.empty()) return reason;
    judged = judge_backend(*backend, program, cell);
    std::printf("%s: worst ratio %.2f\n", mode.c_str(), judged.worst());
    return {};
  }
};

class CheckedWorkload : public Checked {};

TEST_P(CheckedWorkload, agrees_with_the_oracle) {
  for (const Task task : {Task::train, Task::infer}) {
    for (const std::string& mode : modes()) {
      Judged judged;
      const std::string reason = judge(program_of(GetParam().program), task, mode, judged);
      if (!reason.empty()) GTEST_SKIP() << reason;
      EXPECT_TRUE(judged.passed()) << to_string(task) << ' ' << mode << '\n' << judged.text();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, CheckedWorkload, ::testing::ValuesIn(networks()), name_of);

// The smallest images of a network: windows reach past them in the last layers.
std::optional<Program> at_smallest_images(const Workload& workload) {
  constexpr std::int64_t max_parameters = 1'000'000, max_size = 40;
  for (std::int64_t size = 1; size <= max_size; ++size) {
    try {
      Program program = workload.build(4, {workload.sample_shape[0], size, size}, 3);
      std::int64_t parameters = 0;
      for (const ValueId id : program.training->with_role(Role::parameter))
        parameters += program.training->value(id).type.elements();
      if (parameters <= max_parameters) return program;
      break;
    } catch (const GraphError&) {
      continue;  // refused with a reason
    }
  }
  return std::nullopt;
}

class SmallImages : public ::testing::TestWithParam<std::string> {};

TEST_P(SmallImages, AreExaminedOrRefused) {
  int networks = 0;
  for (const Workload& workload : all_workloads()) {
    const bool deep = workload.name.starts_with("resnet");
    if (workload.sample_shape.size() != 3 || (deep && !nightly())) continue;
    const std::optional<Program> program = at_smallest_images(workload);
    if (!program) continue;
    SCOPED_TRACE(workload.name + " " +
                 to_string(program->training->value(program->training->find("inputs")).type));
    const std::unique_ptr<Backend> backend = make_backend(GetParam());
    const Judged judged = judge_backend(*backend, *program, {Task::train, "graph", PrecisionKind::fp32, 1});
    EXPECT_TRUE(judged.passed()) << judged.text();
    std::printf("%s: worst ratio %.2f\n", workload.name.c_str(), judged.worst());
    ++networks;
  }
  EXPECT_GE(networks, 4);
}

INSTANTIATE_TEST_SUITE_P(Backends, SmallImages, ::testing::ValuesIn(our_backends()),
                         [](const auto& backend) { return backend.param; });

// A block of 16 channels is not full: what the library has in the rest of it must not reach the layer before.
Program program_of_24_channels() {
  const auto build = [](bool training) {
    Graph graph("channels");
    GraphBuilder b(graph, training);
    const ValueId inputs = b.input("inputs", {4, 3, 6, 6});
    const ValueId labels = b.label("labels", {4});
    ValueId x = b.relu(b.convolution("conv1", inputs, 32, {.kernel = 3, .padding = 1}));
    x = b.relu(b.batch_norm("norm2", b.convolution("conv2", x, 24, {.kernel = 1})));
    x = b.batch_norm("plain", b.convolution("conv", x, 24, {.kernel = 1}));  // nothing fuses with it
    x = b.relu(b.batch_norm("norm3", b.convolution("conv3", x, 32, {.kernel = 3, .padding = 1})));
    const ValueId logits = b.linear("fc", b.flatten(x), 5);
    graph.add_output("logits", logits);
    if (training) graph.add_output("loss", b.softmax_cross_entropy(logits, labels, "loss"));
    return graph;
  };
  return {build(true), build(false), OptimizerSpec{}};
}

TEST(BatchNorm, AgreesWithTheOracleIfItsChannelsDoNotFillABlock) {
  for (const std::string& backend : our_backends()) {
    for (const std::string& mode : modes_of(backend)) {
      for (const PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16}) {
        const Judged judged = judge_backend(*make_backend(backend), program_of_24_channels(),
                                            {.mode = mode, .precision = precision});
        EXPECT_TRUE(judged.passed()) << backend << ' ' << mode << ' ' << to_string(precision) << '\n'
                                     << judged.text();
      }
    }
  }
}

class Recomputation : public ::testing::TestWithParam<std::string> {};

TEST_P(Recomputation, agrees_with_the_oracle) {
  for (const char* policy : {"mirror", "sqrt"}) {
    Program program = program_of(GetParam());
    program.segments = recompute_segments(program.training.value(), policy);
    EXPECT_FALSE(program.segments.empty()) << policy;
    for (const std::string& backend : our_backends()) {
      for (const char* mode : {"graph", "eager"}) {
        const Judged judged = judge_backend(*make_backend(backend), program, {.mode = mode});
        EXPECT_TRUE(judged.passed()) << backend << ' ' << policy << ' ' << mode << '\n' << judged.text();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Recomputation,
                         ::testing::Values("traps", "lenet5", "cifar10-cnn", "nanogpt"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

std::vector<Case> small_networks() {
  std::vector<Case> small = networks();
  std::erase_if(small, [](const Case& c) { return c.program != "traps"; });
  return small;
}

class CheckedOptimizers : public Checked {};

TEST_P(CheckedOptimizers, agree_with_the_oracle) {
  for (const char* kind : {"sgd", "rmsprop", "adam"}) {
    OptimizerSpec optimizer;
    optimizer.kind = kind;
    optimizer.weight_decay = 0.1;
    Judged judged;
    const std::string reason = judge(program_of("traps", optimizer), Task::train, planned_mode(), judged);
    if (!reason.empty()) GTEST_SKIP() << reason;
    EXPECT_TRUE(judged.passed()) << kind << '\n' << judged.text();
  }
}

Program sparse_lstm(const char* optimizer) {
  const Workload& workload = find_workload("lstm");
  NetworkForm form = workload.form(8);
  form.sample = {40};
  form.sparse_embedding_gradients = true;
  form.optimizer.kind = optimizer;
  return workload.build(form);
}

TEST_P(CheckedOptimizers, agree_with_the_oracle_on_row_sparse_gradients) {
  for (const char* kind : {"adam", "lazy_adam", "sgd"}) {
    Judged judged;
    const std::string reason = judge(sparse_lstm(kind), Task::train, planned_mode(), judged);
    if (!reason.empty()) GTEST_SKIP() << reason;
    EXPECT_TRUE(judged.passed()) << kind << '\n' << judged.text();
  }
}

// Updates every row of the table, as adam does.
class EagerRows final : public Backend {
 public:
  BackendInfo info() const override { return {}; }
  std::string unsupported(const Program&, const CompileOptions&) const override { return {}; }
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override {
    Program other = program;
    other.optimizer->kind = "adam";
    return backend_.compile(other, options);
  }

 private:
  reference::ReferenceBackend backend_;
};

// Else the gradients of the later steps are rounding, which Adam makes whole steps of.
TEST(CheckedSteps, leave_something_to_learn_of_two_samples) {
  for (const char* workload : {"mlp", "lenet5", "cnn"}) {
    const Program program = find_workload(workload).build(4);
    reference::ReferenceBackend backend;
    const Judged judged = judge_backend(backend, program, {Task::train, "graph", PrecisionKind::fp32, 2, 2});
    EXPECT_GT(judged.last_loss, judged.first_loss / 3000) << workload;
  }
}

// Else rounding decides the state after some steps, and nothing of it can be compared.
TEST(CheckedLstm, is_not_chaotic) {
  const Program program = find_workload("lstm").build(4);
  reference::ReferenceBackend backend;
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Judged judged = judge_backend(backend, program, {.threads = 2, .seed = seed});
    EXPECT_TRUE(judged.passed()) << judged.text();
    for (const TensorVerdict& tensor : judged.exam.tensors) {
      if (tensor.name.starts_with("last/")) {
        EXPECT_LT(tensor.l2_bound, 0.1) << seed << ' ' << tensor.name;
      }
    }
  }
}

TEST(CheckedLazyAdam, finds_out_an_adam_that_moves_rows_without_a_gradient) {
  EagerRows backend;
  const Judged judged = judge_backend(backend, sparse_lstm("lazy_adam"), {});
  EXPECT_FALSE(judged.passed());
  EXPECT_NE(judged.exam.reason.find("embedding.weight"), std::string::npos) << judged.text();
}

Program dropping(double rate) {
  const auto network = [rate](GraphBuilder& b, ValueId x, std::int64_t classes) {
    x = b.relu(b.linear("fc1", b.flatten(x), 64));
    return b.linear("fc2", b.dropout(x, rate, "drop"), classes);
  };
  return Workload{.name = "dropping", .sample_shape = {1, 4, 4}, .classes = 5, .network = network}.build(64);
}

TEST(Dropout, passes_the_check_and_its_draws_are_judged) {
  for (const std::string& name : our_backends()) {
    for (const std::string& mode : modes_of(name)) {
      const Judged judged =
          judge_backend(*make_backend(name), dropping(0.25), {Task::train, mode, PrecisionKind::fp32, 1});
      EXPECT_TRUE(judged.passed()) << name << ' ' << mode << '\n' << judged.text();
      const TensorVerdict* draws = judged.find("draws/drop.mask");
      ASSERT_NE(draws, nullptr);
      EXPECT_GT(draws->ratio, 0);
    }
  }
}

TEST(Dropout, AnotherRateIsFoundByStepsAndDraws) {
  AlteredBackend backend("reference", dropping(0.5));
  const Judged judged =
      judge_backend(backend, dropping(0.25), {Task::train, "graph", PrecisionKind::fp32, 1});
  ASSERT_NE(judged.find("first/loss"), nullptr);
  EXPECT_GT(judged.find("first/loss")->ratio, 1);
  ASSERT_NE(judged.find("draws/drop.mask"), nullptr);
  EXPECT_GT(judged.find("draws/drop.mask")->ratio, 1);
}

INSTANTIATE_TEST_SUITE_P(Backends, CheckedOptimizers, ::testing::ValuesIn(small_networks()), name_of);

// CheckedWorkload has two layers of these; a step of training needs more than 20 GB at full size.
using FullSizeCase = std::tuple<std::string, std::string, PrecisionKind>;
class FullSize : public ::testing::TestWithParam<FullSizeCase> {};

TEST_P(FullSize, InfersAsTheOracle) {
  if (!nightly()) GTEST_SKIP() << "it takes minutes: scripts/test --nightly";
  const auto& [backend, network, precision] = GetParam();
  const Workload& workload = find_workload(network);
  const Program program = workload.build(2, {16}, workload.classes);
  CompileOptions options;
  options.task = Task::infer;
  options.mode = "graph";
  options.precision = precision_of(precision);
  const std::unique_ptr<Backend> ours = make_backend(backend);
  if (const std::string reason = ours->unsupported(program, options); !reason.empty()) GTEST_SKIP() << reason;
  const Judged judged = judge_backend(*ours, program, {Task::infer, "graph", precision, 2, 2});
  EXPECT_TRUE(judged.passed()) << judged.text();
}

INSTANTIATE_TEST_SUITE_P(Backends, FullSize,
                         ::testing::Combine(::testing::ValuesIn(our_backends()),
                                            ::testing::Values("bert-base", "gpt2-small"),
                                            ::testing::Values(PrecisionKind::fp32, PrecisionKind::bf16)),
                         [](const auto& test) {
                           std::string name = std::get<0>(test.param) + "_" + std::get<1>(test.param) + "_" +
                                              std::string(to_string(std::get<2>(test.param)));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace assay
