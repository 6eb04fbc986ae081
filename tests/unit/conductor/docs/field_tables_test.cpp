#include "harness/conductor/docs/field_tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/docs/blocks.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Json object(const Json& properties, const Json& required = Json::array()) {
  return {
      {"description", "An object."}, {"type", "object"}, {"properties", properties}, {"required", required}};
}

Json with_description(Json field) {
  field["description"] = "What.";
  return field;
}

// The type that the table has for a field.
std::string type_in_table(const Json& field) {
  const Json definitions = {{"root", object({{"f", with_description(field)}}, Json::array({"f"}))},
                            {"other", object({{"x", with_description({{"type", "string"}})}})}};
  const std::string text = field_tables(definitions, {"root"}, 2);
  const std::size_t begin = text.find("| `f` | ") + 8;
  return text.substr(begin, text.find(" | What.", begin) - begin);
}

TEST(FieldTables, SayTheTypeInWords) {
  EXPECT_EQ(type_in_table({{"type", "string"}}), "string");
  EXPECT_EQ(type_in_table({{"type", {"number", "null"}}}), "number or null");
  EXPECT_EQ(type_in_table({{"type", "integer"}, {"minimum", 1}}), "integer, at least 1");
  EXPECT_EQ(type_in_table({{"type", "integer"}, {"minimum", 0}, {"maximum", 9}}), "integer, 0 to 9");
  EXPECT_EQ(type_in_table({{"enum", {"a", "b"}}}), "`a`, `b`");
  EXPECT_EQ(type_in_table({{"type", "array"}, {"items", {{"type", "string"}}}}), "list of string");
  EXPECT_EQ(type_in_table({{"type", "object"}, {"additionalProperties", {{"type", "number"}}}}),
            "object of number");
  EXPECT_EQ(type_in_table({{"allOf", Json::array({{{"$ref", "#/definitions/other"}}})}}), "[other](#other)");
  EXPECT_EQ(type_in_table({{"anyOf", {{{"$ref", "#/definitions/other"}}, {{"type", "null"}}}}}),
            "[other](#other) or null");
  // A column: a list, or one value for all its entries.
  EXPECT_EQ(type_in_table(
                {{"anyOf", {{{"type", "array"}, {"items", {{"type", "number"}}}}, {{"type", "number"}}}}}),
            "number");
}

TEST(FieldTables, DescribeEachObjectOnceAndOnlyThoseThatAreReferredTo) {
  const Json reference = with_description({{"allOf", Json::array({{{"$ref", "#/definitions/leaf"}}})}});
  const Json definitions = {{"root", object({{"a", reference}, {"b", reference}}, Json::array({"a"}))},
                            {"leaf", object({{"x", with_description({{"type", "string"}})}})},
                            {"stranger", object(Json::object())}};
  EXPECT_EQ(field_tables(definitions, {"root"}, 3),
            "### root\n\nAn object.\n\n| field | type | description |\n|---|---|---|\n"
            "| `a` | [leaf](#leaf) | What. |\n| `b` | [leaf](#leaf) | What. (may be absent) |\n"
            "\n### leaf\n\nAn object.\n\n| field | type | description |\n|---|---|---|\n"
            "| `x` | string | What. (may be absent) |\n");
}

TEST(FieldTables, HaveWhatTheProtocolSends) {
  EXPECT_THAT(request_tables(), AllOf(HasSubstr("#### request\n"), HasSubstr("#### clock_request\n"),
                                      HasSubstr("| `threads` | integer, 1 to 65536 |")));
  EXPECT_THAT(event_tables(),
              AllOf(HasSubstr("#### hello\n"), HasSubstr("#### library\n"), Not(HasSubstr("bye"))));
  EXPECT_THAT(backend_tables(), AllOf(HasSubstr("#### backend\n"), HasSubstr("[refusal](#refusal)")));
}

}  // namespace
}  // namespace assay
