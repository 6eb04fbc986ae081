// Task decode: each generated token has the logits of the full forward pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/graph/program.hpp"
#include "tests/workloads/checked_cell.hpp"
#include "tests/workloads/our_backends.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

Program decoding_program(std::string_view name) { return find_workload(name).build_small(Task::decode); }

std::string with_underscores(std::string_view name) {
  std::string text(name);
  std::ranges::replace(text, '-', '_');
  return text;
}

class Decoding : public ::testing::TestWithParam<std::tuple<std::string, std::string, PrecisionKind>> {};

TEST_P(Decoding, AgreesWithTheFullForwardPass) {
  const auto& [name, network, precision] = GetParam();
  const Program program = decoding_program(network);
  for (const std::string& mode : modes_of(name)) {
    const std::unique_ptr<Backend> backend = make_backend(name);
    CompileOptions options;
    options.task = Task::decode;
    options.mode = mode;
    options.precision = precision_of(precision);
    if (const std::string reason = backend->unsupported(program, options); !reason.empty())
      GTEST_SKIP() << reason;
    const Judged judged = judge_backend(*backend, program, {Task::decode, mode, precision, 2});
    EXPECT_TRUE(judged.passed()) << mode << '\n' << judged.text();
    EXPECT_EQ(judged.exam.tensors.size(), 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Decoding,
                         ::testing::Combine(::testing::ValuesIn(our_backends()),
                                            ::testing::Values("nanogpt", "gpt2-small"),
                                            ::testing::Values(PrecisionKind::fp32, PrecisionKind::bf16)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + with_underscores(std::get<1>(test.param)) +
                                  "_" + std::string(to_string(std::get<2>(test.param)));
                         });

TEST(DecodingProgram, SurvivesGraphJson) {
  const Program program = decoding_program("nanogpt");
  const nlohmann::json json = to_json(program);
  EXPECT_EQ(to_json(program_from_json(json)), json);
  EXPECT_EQ(program.decoding->prompt, 8);
  EXPECT_EQ(program_from_json(json).generated(), 8);
  EXPECT_EQ(program.decoding->step.with_role(Role::cache).size(), 8U) << "keys and values of four layers";
}

TEST(DecodingProgram, IsRejectedIfItsGraphsDisagree) {
  const nlohmann::json json = to_json(decoding_program("nanogpt"));
  const auto error_of = [&](auto&& change) -> std::string {
    nlohmann::json changed = json;
    change(changed["decoding"]);
    try {
      program_from_json(changed);
    } catch (const GraphError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of([](nlohmann::json&) {}), "");
  for (const int prompt : {0, 16, -1})
    EXPECT_NE(error_of([&](nlohmann::json& d) { d["prompt"] = prompt; }), "") << prompt;
  EXPECT_NE(error_of([](nlohmann::json& d) { d["step"]["outputs"].clear(); }), "");
  EXPECT_NE(error_of([](nlohmann::json& d) { d.erase("step"); }), "");
}

TEST(DecodingProgram, IsOnlyMadeOfNetworksThatGenerateTokens) {
  EXPECT_FALSE(find_workload("mlp").build(2, {1, 28, 28}, 10, Task::decode).decoding);
  EXPECT_FALSE(find_workload("nanogpt").build(2, {16}, 65).decoding);
  EXPECT_TRUE(find_workload("nanogpt").build(2, {2}, 65, Task::decode).decoding);
  EXPECT_THROW(find_workload("nanogpt").build(2, {1}, 65, Task::decode), GraphError);
}

class DecodingExecutable : public ::testing::TestWithParam<std::string> {
 protected:
  static std::vector<float> logits(Executable& executable) {
    executable.synchronize();
    const std::vector<HostTensor> results = executable.results();
    EXPECT_EQ(results.size(), 1U);
    EXPECT_EQ(results.front().type.shape, (Shape{4, 1, 65}));
    const auto values = results.front().as<float>();
    return {values.begin(), values.end()};
  }
};

TEST_P(DecodingExecutable, BeginsAgainWithEveryPrompt) {
  const Program program = decoding_program("nanogpt");
  CompileOptions options;
  options.task = Task::decode;
  options.mode = "graph";
  const std::unique_ptr<Executable> executable = make_backend(GetParam())->compile(program, options);
  std::vector<HostTensor> state;
  for (const ValueId id : program.inference.with_role(Role::parameter)) {
    const Value& value = program.inference.value(id);
    state.push_back(HostTensor::zeros(value.name, value.type));
    float next = 0.05F;
    for (float& element : state.back().as<float>()) element = next = next > 0.3F ? -0.29F : next + 0.037F;
  }
  executable->set_state(state);
  EXPECT_THROW(executable->next_token(0), std::logic_error);
  std::vector<std::int32_t> tokens(4 * 16);
  for (const std::int64_t slot : {0, 1}) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>((i * 7 + static_cast<std::size_t>(slot) * 11) % 65);
    executable->stage(slot, {tokens.data(), nullptr});
  }
  executable->prefill(0);
  const std::vector<float> prompt = logits(*executable);
  for (std::int64_t token = 0; token < program.generated(); ++token) executable->next_token(0);
  const std::vector<float> last = logits(*executable);
  EXPECT_NE(prompt, last);

  executable->step(1, 0, 1);
  EXPECT_NE(logits(*executable), last);
  executable->prefill(0);
  EXPECT_EQ(logits(*executable), prompt);
  executable->step(0, 0, 2);
  EXPECT_EQ(logits(*executable), last);
  // Keys and values of 4 layers, 4 samples, 16 places, 128 wide.
  EXPECT_EQ(executable->memory().at("caches"), 2 * 4 * 4 * 16 * 128 * 4);
}

INSTANTIATE_TEST_SUITE_P(Backends, DecodingExecutable, ::testing::ValuesIn(our_backends()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace assay
