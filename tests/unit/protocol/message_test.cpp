#include "harness/protocol/message.hpp"

#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::protocol {
namespace {

using ::testing::HasSubstr;

std::string error_of(std::string_view line) {
  try {
    parse_event(line);
  } catch (const ProtocolError& error) {
    return error.what();
  }
  return "";
}

TEST(Message, commands_survive_the_wire) {
  for (const Verb verb : {Verb::compile, Verb::run, Verb::verify, Verb::restart, Verb::exchange,
                          Verb::time_device, Verb::oracle, Verb::quit}) {
    EXPECT_EQ(parse_command(write(Command{verb})).verb, verb);
  }
}

TEST(Message, hello_survives_the_wire) {
  const Hello sent{1, "torch", "2.15", {{"oneDNN", "3.2", "/lib/dnnl.so"}}, {{"threads", "2"}}};
  const auto got = std::get<Hello>(parse_event(write(Event{sent})));
  EXPECT_EQ(got.backend, "torch");
  EXPECT_EQ(got.version_of_backend, "2.15");
  ASSERT_EQ(got.libraries.size(), 1U);
  EXPECT_EQ(got.libraries[0].path, "/lib/dnnl.so");
  EXPECT_EQ(got.settings.at("threads"), "2");
}

TEST(Message, ran_carries_memory_settings_and_the_profile) {
  const Ran sent{
      {{"planned_arena", 1 << 20}}, {{"math", "strict"}}, {{"conv1", "convolution", 0.25, 100}}, "5ac3"};
  const auto got = std::get<Ran>(parse_event(write(Event{sent})));
  EXPECT_EQ(got.memory.at("planned_arena"), 1 << 20);
  ASSERT_EQ(got.operators.size(), 1U);
  EXPECT_EQ(got.operators[0].node, "conv1");
  EXPECT_EQ(got.operators[0].calls, 100);
  EXPECT_EQ(got.state_digest, "5ac3");
}

TEST(Message, ExchangedCarriesItsTimes) {
  const Exchanged sent{"", 4096, 3, {0.25, 0.5}, {0.125, 0.25}, {0.5, 1.0}};
  EXPECT_EQ(std::get<Exchanged>(parse_event(write(Event{sent}))), sent);
  EXPECT_EQ(std::get<Exchanged>(parse_event(R"({"event": "exchanged", "reason": "why"})")).reason, "why");
}

TEST(Message, DeviceTimedCarriesItsTimes) {
  const DeviceTimed sent{"", 8192, {2.5e-6, 2.25e-6}};
  EXPECT_EQ(std::get<DeviceTimed>(parse_event(write(Event{sent}))), sent);
  EXPECT_EQ(std::get<DeviceTimed>(parse_event(R"({"event": "device_timed", "reason": "why"})")).reason,
            "why");
}

TEST(Message, DeviceTimedHasTimesOrAReason) {
  EXPECT_EQ(contradiction(DeviceTimed{"", 3, {0.25}}), "");
  EXPECT_EQ(contradiction(DeviceTimed{.reason = "why"}), "");
  for (const DeviceTimed& wrong : {DeviceTimed{}, DeviceTimed{"why", 3, {0.25}}, DeviceTimed{"", 0, {0.25}},
                                   DeviceTimed{"", 3, {}}, DeviceTimed{"why", 3, {}}})
    EXPECT_NE(contradiction(wrong), "") << write(Event{wrong});
  for (const double time : {0.0, -1.0, HUGE_VAL, std::nan("")})
    EXPECT_NE(contradiction(DeviceTimed{"", 3, {0.25, time}}), "") << time;
}

TEST(Message, ExchangedHasTimesOrAReason) {
  const Exchanged good{"", 4096, 3, {0.25}, {0.125}, {0.5}};
  EXPECT_EQ(contradiction(good), "");
  EXPECT_EQ(contradiction(Exchanged{.reason = "why"}), "");
  EXPECT_NE(contradiction(Exchanged{}), "");
  Exchanged wrong = good;
  wrong.reason = "why";
  EXPECT_NE(contradiction(wrong), "") << "both";
  wrong = good;
  wrong.steps = 0;
  EXPECT_NE(contradiction(wrong), "");
  wrong = good;
  wrong.local_seconds.clear();
  EXPECT_NE(contradiction(wrong), "");
  for (const double time : {0.0, -1.0, HUGE_VAL, std::nan("")}) {
    wrong = good;
    wrong.bare_seconds = {time};
    EXPECT_NE(contradiction(wrong), "") << time;
  }
}

TEST(Message, every_kind_of_error_survives_the_wire) {
  for (const ErrorKind kind :
       {ErrorKind::unsupported, ErrorKind::unavailable, ErrorKind::out_of_memory, ErrorKind::failed}) {
    const auto got = std::get<Error>(parse_event(write(Event{Error{kind, "why"}})));
    EXPECT_EQ(got.kind, kind);
    EXPECT_EQ(got.reason, "why");
  }
}

TEST(Message, keeps_settings_that_are_no_text) {
  const auto got = std::get<Compiled>(
      parse_event(R"({"event": "compiled", "seconds": 1, "settings": {"threads": 2, "tf32": false}})"));
  EXPECT_EQ(got.settings.at("threads"), "2");
  EXPECT_EQ(got.settings.at("tf32"), "false");
}

TEST(Message, RefusesNegativeBytes) {
  for (const char* event : {"compiled", "ran"}) {
    const std::string line =
        R"({"event": ")" + std::string(event) + R"(", "seconds": 1, "memory": {"arena": -5}})";
    EXPECT_THAT(error_of(line), HasSubstr("memory/arena: -5 is below 0"));
  }
}

TEST(Message, ignores_fields_that_it_does_not_know) {
  EXPECT_EQ(std::get<Progress>(parse_event(R"({"event": "progress", "done": 1, "planned": 2, "mood": []})"))
                .planned,
            2);
}

TEST(Message, reports_a_line_that_is_not_a_message) {
  EXPECT_THAT(error_of("Segmentation fault"), HasSubstr("Segmentation fault"));
  EXPECT_THAT(error_of("[1, 2]"), HasSubstr("not an object"));
  EXPECT_THAT(error_of(R"({"event": "dance"})"), HasSubstr("unknown event"));
  EXPECT_THAT(error_of(R"({"event": 7})"), HasSubstr("event: should be text"));
  EXPECT_THAT(error_of(R"({"event": "hello", "backend": "x"})"),
              HasSubstr("the field \"protocol\" is missing"));
  EXPECT_THAT(error_of(R"({"event": "ran", "memory": {"arena": "much"}})"), HasSubstr("memory"));
  EXPECT_THAT(error_of(R"({"event": "ran", "operators": [3]})"), HasSubstr("operators"));
  EXPECT_THAT(error_of(R"({"event": "progress", "done": 1e300, "planned": 2})"), HasSubstr("done"));
  EXPECT_THAT(error_of(R"({"event": "error", "kind": "bad"})"),
              HasSubstr("kind: \"bad\" is not one of unsupported, unavailable"));
}

TEST(Message, RefusesAKeyThatIsThereTwice) {
  EXPECT_THAT(error_of(R"({"event": "compiled", "seconds": 1, "seconds": 2})"),
              HasSubstr("duplicate key \"seconds\""));
  EXPECT_THAT(error_of(R"({"event": "ran", "memory": {"arena": 5, "arena": 6}})"),
              HasSubstr("duplicate key \"arena\""));
  EXPECT_THAT(error_of(R"({"event": "ran", "event": "verified"})"), HasSubstr("duplicate key \"event\""));
}

TEST(Message, survives_garbage_of_every_sort) {
  EXPECT_NE(error_of(""), "");
  EXPECT_NE(error_of(std::string_view("\0\xff\xfe", 3)), "");
  EXPECT_NE(error_of(std::string(200'000, '[')), "");
  EXPECT_LT(error_of(std::string(200'000, 'a')).size(), 500U);
}

TEST(Message, RefusesDeepLinesBeforeTheStackEnds) {
  const std::string deep = std::string(400'000, '[') + std::string(400'000, ']');
  EXPECT_THAT(error_of(R"({"event": "bye", "x": )" + deep + "}"), HasSubstr("nested more than 16 deep"));
  EXPECT_THAT(error_of(R"({"event": "bye", "settings": {"a": )" + deep + "}}"), HasSubstr("nested"));
}

TEST(Message, repairs_invalid_utf8) {
  const std::string line = write(Event{Error{ErrorKind::failed, "bad \xff byte\nsecond line"}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_THAT(std::get<Error>(parse_event(line)).reason, HasSubstr("byte\nsecond line"));
}

TEST(Message, refuses_numbers_that_json_cannot_say) {
  EXPECT_THROW(write(Event{Compiled{std::numeric_limits<double>::quiet_NaN(), {}, {}}}), ProtocolError);
}

}  // namespace
}  // namespace assay::protocol
