// The JSON schema (draft 7) of a struct, from its description (fields.hpp).
#pragma once

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/json/fields.hpp"
#include "harness/core/words.hpp"

namespace assay {

// Makes the schemas of types. A described struct goes into `definitions()` once and is referred to by name.
class SchemaMaker {
 public:
  template <typename T>
  nlohmann::json of() {
    return make(Of<T>{});
  }
  const nlohmann::json& definitions() const { return definitions_; }

  // The object's full schema, which is not added to the definitions: for the root of a document.
  template <Described T>
  nlohmann::json object() {
    constexpr auto description = describe(Of<T>{});
    nlohmann::json properties = nlohmann::json::object(), required = nlohmann::json::array();
    description.each([&](const auto& field, std::size_t) {
      properties[field.key] = described(of_field(field), field);
      if (!field.rules.may_be_missing) required.push_back(field.key);
    });
    return {{"description", description.doc},
            {"type", "object"},
            {"properties", std::move(properties)},
            {"required", std::move(required)}};
  }

 private:
  nlohmann::json make(Of<bool>) { return {{"type", "boolean"}}; }
  nlohmann::json make(Of<std::filesystem::path>) { return {{"type", "string"}}; }
  nlohmann::json make(Of<double>) { return {{"type", {"number", "null"}}}; }
  nlohmann::json make(Of<float>) { return {{"type", "number"}}; }
  template <std::integral T>
  nlohmann::json make(Of<T>) {
    nlohmann::json schema{{"type", "integer"}};
    if (std::unsigned_integral<T>) schema["minimum"] = 0;
    return schema;
  }
  nlohmann::json make(Of<std::string>) { return {{"type", "string"}}; }
  nlohmann::json make(Of<nlohmann::json>) { return nlohmann::json::object(); }
  template <Worded E>
  nlohmann::json make(Of<E>) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& word : words<E>) list.push_back(word.text);
    return {{"enum", std::move(list)}};
  }
  template <typename T>
    requires requires(Of<T> type) { schema_of(type); }
  nlohmann::json make(Of<T> type) {
    return schema_of(type);
  }
  template <typename T>
  nlohmann::json make(Of<std::optional<T>>) {
    nlohmann::json schema = make(Of<T>{});
    if (schema.contains("type") && schema["type"].is_string()) {
      schema["type"] = {schema["type"], "null"};
    } else if (!schema.contains("type")) {
      schema = {{"anyOf", {std::move(schema), {{"type", "null"}}}}};
    }
    return schema;
  }
  template <typename T>
  nlohmann::json make(Of<std::vector<T>>) {
    return {{"type", "array"}, {"items", make(Of<T>{})}};
  }
  template <typename T, typename Order>
  nlohmann::json make(Of<std::map<std::string, T, Order>>) {
    return {{"type", "object"}, {"additionalProperties", make(Of<T>{})}};
  }
  template <std::integral K, typename T>
  nlohmann::json make(Of<std::map<K, T>>) {
    return make(Of<std::map<std::string, T>>{});
  }
  template <Described T>
  nlohmann::json make(Of<T>) {
    const std::string name(describe(Of<T>{}).name);
    if (!definitions_.contains(name)) {
      definitions_[name] = nullptr;  // reserves the name while its fields are made
      definitions_[name] = object<T>();
    }
    return {{"$ref", "#/definitions/" + name}};
  }
  template <Described T>
  nlohmann::json columns(Of<std::vector<T>>) {
    constexpr auto description = describe(Of<T>{});
    const std::string name = std::string(description.name) + "_columns";
    nlohmann::json properties = nlohmann::json::object();
    description.each([&](const auto& field, std::size_t) {
      nlohmann::json entry = of_entry(field);
      nlohmann::json list{{"type", "array"}, {"items", entry}};
      using Member = typename std::remove_cvref_t<decltype(field)>::Member;
      const bool of_lists = requires { typename Member::value_type::value_type; };
      if (of_lists) entry = {{"type", "null"}};  // a list is always a column, never one value for all rows
      nlohmann::json column{{"anyOf", {list, std::move(entry)}}};
      properties[field.key] = described(of_lists && !is_optional<Member> ? list : column, field);
    });
    nlohmann::json required = nlohmann::json::array();
    description.each([&](const auto& field, std::size_t) {
      if (!field.rules.may_be_missing) required.push_back(field.key);
    });
    definitions_[name] = {{"description", description.doc},
                          {"type", "object"},
                          {"properties", std::move(properties)},
                          {"anyOf", {{{"maxProperties", 0}}, {{"required", std::move(required)}}}}};
    return {{"$ref", "#/definitions/" + name}};
  }
  // An entry of a column, where a number that is not finite is a word.
  template <typename Field>
  nlohmann::json of_entry(const Field& field) {
    using Member = typename Field::Member;
    nlohmann::json entry = of_field(field);
    if constexpr (std::same_as<Member, double> || std::same_as<Member, std::optional<double>>) {
      nlohmann::json words(not_finite_words);
      if (is_optional<Member> || field.rules.null_is_nan) words.push_back(nullptr);
      entry["type"] = "number";
      return {{"anyOf", {std::move(entry), {{"enum", std::move(words)}}}}};
    }
    return entry;
  }

  template <typename Field>
  nlohmann::json of_field(const Field& field) {
    using Member = typename Field::Member;
    const FieldRules& rules = field.rules;
    nlohmann::json schema;
    if constexpr (!std::is_void_v<typename Field::Shape>) {
      schema = make(Of<typename Field::Shape>{});
    } else if constexpr (requires { columns(Of<Member>{}); }) {
      schema = rules.columns ? columns(Of<Member>{}) : make(Of<Member>{});
    } else {
      schema = make(Of<Member>{});
    }
    add_rules(schema, rules);
    return schema;
  }
  template <typename Field>
  static nlohmann::json described(nlohmann::json schema, const Field& field) {
    // Draft 7 ignores what is next to a $ref, so a reference with a description is wrapped.
    if (schema.contains("$ref")) schema = {{"allOf", {std::move(schema)}}};
    schema["description"] = field.doc;
    return schema;
  }

 public:
  static void add_rules(nlohmann::json& schema, const FieldRules& rules) {
    const bool list = schema.value("type", nlohmann::json()) == "array";
    const bool map = schema.contains("additionalProperties");
    nlohmann::json& numbers = list ? schema["items"] : map ? schema["additionalProperties"] : schema;
    if (std::isfinite(rules.minimum)) numbers["minimum"] = number(rules.minimum);
    if (std::isfinite(rules.maximum)) numbers["maximum"] = number(rules.maximum);
    if (rules.min_length > 0) schema[list ? "minItems" : "minLength"] = rules.min_length;
    if (rules.object && !schema.contains("$ref")) schema["type"] = "object";
    if (rules.unique) schema["uniqueItems"] = true;
    for (const std::string_view choice : rules.choices)
      if (!choice.empty()) schema["enum"].push_back(choice);
  }

 private:
  static nlohmann::json number(double value) {
    if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
    return value;
  }

  nlohmann::json definitions_ = nlohmann::json::object();
};

}  // namespace assay
