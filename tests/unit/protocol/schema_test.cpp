// docs/reference/protocol.schema.json accepts what we send and what the shipped backends declare, and refuses
// what is wrong.
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "harness/protocol/message.hpp"

namespace assay::protocol {
namespace {

using Json = nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

// The errors of `document` against one definition of the schema; empty when it is valid.
std::string errors(const std::string& definition, const Json& document) {
  static const Json whole = read_json(std::string(ASSAY_SOURCE_DIR) + "/docs/reference/protocol.schema.json");
  Json part = whole;
  part.erase("oneOf");
  part["allOf"] = Json::array({Json{{"$ref", "#/definitions/" + definition}}});
  valijson::Schema schema;
  valijson::SchemaParser parser;
  const Adapter adapter(part);
  parser.populateSchema(adapter, schema);
  valijson::Validator validator;
  valijson::ValidationResults results;
  if (validator.validate(schema, Adapter(document), &results)) return "";
  std::string text = "invalid";
  valijson::ValidationResults::Error error;
  while (results.popError(error)) text += "\n" + error.description;
  return text;
}

Json request() {
  return Json::parse(
      R"({"protocol": 1, "backend": "onednn", "workload": "lenet5", "task": "train", "mode": "graph",
    "device": "cpu", "precision": "fp32", "layout": "native", "batch": 200, "threads": 2, "seed": 1,
    "deterministic": false, "profile": false,
    "loader": {"kind": "resident", "workers": 1, "prefetch": 4, "resident_batches": 8},
    "clock": {"kind": "steps", "warm_up": {"min_steps": 10, "min_seconds": 0.5}, "block_seconds": 0.1, "blocks": 10},
    "check": {"distinct": 8, "perturbations": 4}})");
}

TEST(ProtocolSchema, holds_for_every_message_that_we_write) {
  for (const Verb verb : {Verb::compile, Verb::run, Verb::verify, Verb::restart, Verb::exchange,
                          Verb::time_device, Verb::oracle, Verb::quit}) {
    EXPECT_EQ(errors("command", Json::parse(write(Command{verb}))), "");
  }
  const Event events[] = {Hello{1, "x", "1", {{"l", "1", ""}}, {}},
                          Compiled{0.5, {}, {{"arena", 1}}},
                          Ran{{}, {}, {{"n", "op", 0.1, 2}}, "5ac3"},
                          Verified{},
                          Restarted{},
                          Exchanged{"", 4096, 3, {0.2, 0.3}, {0.1, 0.1}, {0.1, 0.2}},
                          Exchanged{.reason = "why"},
                          DeviceTimed{"", 8192, {2e-6, 3e-6}},
                          DeviceTimed{.reason = "why"},
                          Judged{},
                          Bye{},
                          Progress{1, 2},
                          Error{ErrorKind::unsupported, "why"}};
  for (const Event& event : events) EXPECT_EQ(errors("event", Json::parse(write(event))), "") << write(event);
}

TEST(ProtocolSchema, holds_for_requests_of_both_clocks) {
  EXPECT_EQ(errors("request", request()), "");
  Json epochs = request();
  epochs["clock"] = Json::parse(R"({"kind": "epochs", "epochs": 15, "evaluate": ["train", "test"]})");
  EXPECT_EQ(errors("request", epochs), "");
}

TEST(ProtocolSchema, holds_for_requests_of_single_ops) {
  Json op = request();
  op["op"] = Json::parse(R"({"size": "m64", "cache": "cold"})");
  EXPECT_EQ(errors("request", op), "");
  op["op"]["cache"] = "tepid";
  EXPECT_NE(errors("request", op), "");
}

TEST(ProtocolSchema, refuses_invalid_messages) {
  Json wrong = request();
  wrong["batch"] = 0;
  EXPECT_NE(errors("request", wrong), "");
  wrong = request();
  wrong["clock"]["kind"] = "sundial";
  EXPECT_NE(errors("request", wrong), "");
  for (const char* field : {"task", "device", "precision"}) {
    wrong = request();
    wrong[field] = "gpu";
    EXPECT_NE(errors("request", wrong), "") << field;
  }
  EXPECT_NE(errors("event", Json{{"event", "dance"}}), "");
  EXPECT_NE(errors("event", Json{{"event", "error"}, {"kind", "bad"}}), "");
  EXPECT_NE(errors("command", Json{{"command", "stop"}}), "");
  EXPECT_NE(errors("backend", Json{{"name", "x"}}), "");
}

TEST(ProtocolSchema, holds_for_the_backends_of_this_tree) {
  for (const auto& entry : std::filesystem::directory_iterator(std::string(ASSAY_SOURCE_DIR) + "/backends")) {
    const auto path = entry.path() / "backend.json";
    if (std::filesystem::exists(path)) {
      EXPECT_EQ(errors("backend", read_json(path)), "") << path;
    }
  }
}

}  // namespace
}  // namespace assay::protocol
