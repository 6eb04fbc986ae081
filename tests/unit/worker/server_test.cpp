#include "harness/worker/server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "backends/reference/reference_backend.hpp"
#include "harness/core/io/safetensors.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/program.hpp"
#include "tests/unit/batch/cell_fixture.hpp"

namespace assay {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// A backend that has no memory to give.
class Hungry final : public Backend {
 public:
  BackendInfo info() const override {
    return {"hungry", "1", {{"lib", "2", "/lib/x.so"}}, {{"threads", "1"}}};
  }
  std::string unsupported(const Program&, const CompileOptions&) const override { return {}; }
  std::unique_ptr<Executable> compile(const Program&, const CompileOptions&) override {
    throw std::bad_alloc();
  }
};

// A backend with a bug.
class Mistaken final : public Backend {
 public:
  BackendInfo info() const override { return {"mistaken", "1", {}, {}}; }
  std::string unsupported(const Program&, const CompileOptions&) const override { return {}; }
  std::unique_ptr<Executable> compile(const Program&, const CompileOptions&) override {
    throw std::logic_error("no row 3");
  }
};

Program small_program() {
  Program program{Graph("small"), Graph("small"), OptimizerSpec{}};
  for (Graph* graph : {&program.training.value(), &program.inference}) {
    GraphBuilder builder(*graph, graph == &program.training.value());
    const ValueId inputs = builder.input("inputs", {4, 2, 2, 3});
    const ValueId logits = builder.linear("fc", builder.flatten(inputs, "flat"), Cell::classes);
    graph->add_output("logits", logits);
    if (graph != &program.training.value()) continue;
    const ValueId labels = builder.label("labels", {4});
    graph->add_output("loss", builder.softmax_cross_entropy(logits, labels, "loss"));
  }
  return program;
}

// A cell folder with its program, a server in a thread, and the conductor's end of the channel.
class Conversation {
 public:
  explicit Conversation(json request = json::object(), std::unique_ptr<Backend> backend = nullptr) {
    const json defaults{
        {"protocol", 1},   {"backend", "reference"}, {"workload", "small"},          {"mode", "graph"},
        {"device", "cpu"}, {"precision", "fp32"},    {"layout", "native"},           {"threads", 1},
        {"seed", 1},       {"profile", false},       {"a_field_of_tomorrow", {1, 2}}};
    cell.request.update(defaults);
    cell.request.update(request);
    cell.save_request();
    write_atomically(cell.folder / "graph.json", to_json(small_program()).dump(), false);
    HostTensor weight{"fc.weight", {DType::f32, {Cell::classes, Cell::elements}}, {}};
    HostTensor bias{"fc.bias", {DType::f32, {Cell::classes}}, {}};
    for (HostTensor* tensor : {&weight, &bias}) {
      tensor->bytes.resize(static_cast<std::size_t>(tensor->type.bytes()));
      for (std::size_t i = 0; i < tensor->as<float>().size(); ++i) {
        tensor->as<float>()[i] = 0.01F * static_cast<float>(i % 7) - 0.03F;
      }
    }
    const std::vector<HostTensor> tensors{weight, bias};
    write_safetensors(cell.folder / "parameters.safetensors", tensors);
    backend_ = backend ? std::move(backend) : std::make_unique<reference::ReferenceBackend>();
    int down[2], up[2];
    if (::pipe(down) != 0 || ::pipe(up) != 0) throw std::runtime_error("no pipe");
    conductor_ = std::make_unique<protocol::Channel>(up[0], down[1]);
    server_ = std::thread([this, in = down[0], out = up[1]] {
      protocol::Channel channel(in, out);
      Server(cell.path(), *backend_, channel).serve();
    });
  }
  ~Conversation() {
    conductor_->close_write();
    server_.join();
  }

  void send(const std::string& line) { conductor_->write_line(line); }
  // The next event that is not progress; {} when the worker has hung up.
  json hear() {
    for (;;) {
      const protocol::Line line =
          conductor_->read_line(std::chrono::steady_clock::now() + std::chrono::seconds(60));
      if (line.reading != protocol::Reading::line) return {};
      json event = json::parse(line.text);
      if (event["event"] != "progress") return event;
    }
  }
  json ask(const std::string& command) {
    send(command);
    return hear();
  }

  Cell cell;

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<protocol::Channel> conductor_;
  std::thread server_;
};

TEST(Server, trains_a_cell_from_hello_to_bye) {
  Conversation with;
  const json hello = with.hear();
  EXPECT_EQ(hello["event"], "hello");
  EXPECT_EQ(hello["backend"], "reference");
  const json compiled = with.ask(R"({"command": "compile"})");
  EXPECT_EQ(compiled["event"], "compiled") << compiled;
  EXPECT_GT(compiled["seconds"], 0);
  EXPECT_GT(compiled["memory"]["planned_arena"], 0);
  EXPECT_GT(compiled["memory"]["installed_size"], 0);
  EXPECT_EQ(compiled["settings"]["threads"], "1");
  const json ran = with.ask(R"({"command": "run"})");
  EXPECT_EQ(ran["event"], "ran") << ran;
  EXPECT_TRUE(with.cell.results().is_object());
  EXPECT_EQ(with.ask(R"({"command": "quit"})")["event"], "bye");
  EXPECT_TRUE(with.hear().is_null());
}

TEST(Server, reports_the_time_of_each_op_on_request) {
  Conversation with(json{{"profile", true}});
  with.hear();
  with.ask(R"({"command": "compile"})");
  const json ran = with.ask(R"({"command": "run"})");
  ASSERT_GT(ran["operators"].size(), 3U) << ran;
  EXPECT_GT(ran["operators"][0]["seconds"], 0);
}

TEST(Server, infers_and_stamps_latencies) {
  Conversation with(
      {{"task", "infer"},
       {"loader", {{"kind", "resident"}, {"resident_batches", 2}}},
       {"clock", {{"kind", "steps"}, {"steps", 5}, {"warm_up", {{"min_steps", 1}, {"min_seconds", 0}}}}}});
  with.hear();
  EXPECT_EQ(with.ask(R"({"command": "compile"})")["event"], "compiled");
  EXPECT_EQ(with.ask(R"({"command": "run"})")["event"], "ran");
}

TEST(Server, refuses_commands_before_the_compilation) {
  Conversation with;
  with.hear();
  for (const char* command : {"run", "verify", "exchange", "time_device"}) {
    const json answer = with.ask(json{{"command", command}}.dump());
    EXPECT_EQ(answer["event"], "error") << command;
    EXPECT_EQ(answer["kind"], "failed");
    EXPECT_THAT(answer["reason"].get<std::string>(), HasSubstr("compile")) << command;
  }
}

TEST(Server, ExchangesNothingAsTheOnlyRank) {
  Conversation with;
  with.hear();
  with.ask(R"({"command": "compile"})");
  const json answer = with.ask(R"({"command": "exchange"})");
  EXPECT_EQ(answer["event"], "exchanged") << answer;
  EXPECT_THAT(answer["reason"].get<std::string>(), HasSubstr("one rank"));
  EXPECT_FALSE(answer.contains("step_seconds"));
}

TEST(Server, SaysThatABackendHasNoDeviceToTime) {
  Conversation with;
  with.hear();
  with.ask(R"({"command": "compile"})");
  const json answer = with.ask(R"({"command": "time_device"})");
  EXPECT_EQ(answer["event"], "device_timed") << answer;
  EXPECT_THAT(answer["reason"].get<std::string>(), HasSubstr("[time_device]"));
  EXPECT_FALSE(answer.contains("step_seconds"));
}

TEST(Server, answers_garbage_with_an_error_and_goes_on) {
  Conversation with;
  with.hear();
  for (const char* garbage :
       {"{", "[]", "null", R"({"command": "dance"})", R"({"command": 7})", "\xff\xfe", ""}) {
    EXPECT_EQ(with.ask(garbage)["event"], "error") << garbage;
  }
  EXPECT_EQ(with.ask(R"({"command": "compile"})")["event"], "compiled");
}

TEST(Server, says_unsupported_with_the_reason) {
  Conversation with(json{{"mode", "compile"}});
  with.hear();
  const json answer = with.ask(R"({"command": "compile"})");
  EXPECT_EQ(answer["kind"], "unsupported") << answer;
  EXPECT_THAT(answer["reason"].get<std::string>(), HasSubstr("'compile'"));
}

TEST(Server, reports_out_of_memory) {
  Conversation with(json::object(), std::make_unique<Hungry>());
  const json hello = with.hear();
  EXPECT_EQ(hello["libraries"][0]["path"], "/lib/x.so");
  EXPECT_EQ(with.ask(R"({"command": "compile"})")["kind"], "out_of_memory");
}

TEST(Server, ReportsABugOfTheBackendAsAnInternalError) {
  Conversation with(json::object(), std::make_unique<Mistaken>());
  with.hear();
  const json event = with.ask(R"({"command": "compile"})");
  EXPECT_EQ(event["kind"], "failed");
  EXPECT_EQ(event["reason"], "a fault of the program, please report it: no row 3");
}

TEST(Server, names_the_file_that_is_wrong) {
  Conversation with;
  with.hear();
  write_atomically(with.cell.folder / "graph.json", R"({"schema": "assay-program/1"})", false);
  const json answer = with.ask(R"({"command": "compile"})");
  EXPECT_EQ(answer["kind"], "failed");
  EXPECT_THAT(answer["reason"].get<std::string>(), HasSubstr("graph.json"));
}

TEST(Server, names_the_field_of_the_request_that_is_wrong) {
  const json wrong{{"task", 3}, {"precision", "fp8"}, {"protocol", 2}, {"threads", "two"}};
  for (const auto& [field, value] : wrong.items()) {
    Conversation with(json{{field, value}});
    with.hear();
    const json answer = with.ask(R"({"command": "compile"})");
    EXPECT_EQ(answer["kind"], "failed") << field;
    EXPECT_THAT(answer["reason"].get<std::string>(), HasSubstr("request.json")) << field;
  }
}

TEST(Server, NamesTheKnownWordsWhenARequestHasAnotherOne) {
  const json wrong[] = {{{"task", "tain"}},
                        {{"precision", "fp16x"}},
                        {{"device", "gpu"}},
                        {{"loader", {{"kind", "own"}}}},
                        {{"op", {{"size", "16"}, {"cache", "tepid"}}}}};
  const char* expected[] = {"/task: \"tain\" is not one of train, infer",
                            "/precision: \"fp16x\" is not one of fp32, tf32, bf16, fp64",
                            "/device: \"gpu\" is not one of cpu, cuda",
                            "/loader/kind: \"own\" is not one of resident, harness, native",
                            "/op/cache: \"tepid\" is not one of cold, warm"};
  for (std::size_t i = 0; i < std::size(wrong); ++i) {
    Conversation with(wrong[i]);
    with.hear();
    const json answer = with.ask(R"({"command": "compile"})");
    EXPECT_EQ(answer["kind"], "failed");
    EXPECT_THAT(answer["reason"].get<std::string>(), HasSubstr(std::string("request.json") + expected[i]));
  }
}

TEST(Server, is_not_an_oracle_without_a_request) {
  Conversation with;
  with.hear();
  const json answer = with.ask(R"({"command": "oracle"})");
  EXPECT_EQ(answer["event"], "error");
  EXPECT_THAT(answer["reason"].get<std::string>(), HasSubstr("oracle"));
}

TEST(Server, quits_when_the_conductor_is_gone) {
  Conversation with;
  with.hear();  // the destructor closes the channel and joins
}

}  // namespace
}  // namespace assay
