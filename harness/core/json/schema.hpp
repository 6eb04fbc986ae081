// The JSON schema (draft 7) of a struct, from its description (fields.hpp).
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/json/fields.hpp"
#include "harness/core/words.hpp"

namespace assay {

// Makes the schema of types; described structs go into `definitions()` once, and are referred to by name.
class SchemaMaker {
 public:
  template <typename T>
  nlohmann::json of() {
    return make(Of<T>{});
  }
  const nlohmann::json& definitions() const { return definitions_; }

  // The object's schema in full, without putting it into the definitions: for the root of a document.
  template <Described T>
  nlohmann::json object() {
    constexpr auto description = describe(Of<T>{});
    nlohmann::json properties = nlohmann::json::object(), required = nlohmann::json::array();
    description.each([&](const auto& field, std::size_t) {
      properties[field.key] = of_field(field);
      if (!field.rules.may_be_missing) required.push_back(field.key);
    });
    return {{"description", description.doc},
            {"type", "object"},
            {"properties", std::move(properties)},
            {"required", std::move(required)}};
  }

 private:
  nlohmann::json make(Of<bool>) { return {{"type", "boolean"}}; }
  nlohmann::json make(Of<double>) { return {{"type", {"number", "null"}}}; }
  template <std::integral T>
  nlohmann::json make(Of<T>) {
    return {{"type", "integer"}};
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
  template <Described T>
  nlohmann::json make(Of<T>) {
    const std::string name(describe(Of<T>{}).name);
    if (!definitions_.contains(name)) {
      definitions_[name] = nullptr;  // holds its place while its fields are made
      definitions_[name] = object<T>();
    }
    return {{"$ref", "#/definitions/" + name}};
  }
  template <Described T>
  nlohmann::json columns(Of<std::vector<T>>) {
    nlohmann::json schema = object<T>();
    for (auto& [key, column] : schema["properties"].items()) {
      nlohmann::json entry = column;
      entry.erase("description");
      column = {{"description", column["description"]}, {"type", "array"}, {"items", std::move(entry)}};
    }
    const std::string name = std::string(describe(Of<T>{}).name) + "_columns";
    definitions_[name] = std::move(schema);
    return {{"$ref", "#/definitions/" + name}};
  }

  template <typename Owner, typename Member>
  nlohmann::json of_field(const Field<Owner, Member>& field) {
    nlohmann::json schema;
    if constexpr (requires { columns(Of<Member>{}); })
      schema = field.rules.columns ? columns(Of<Member>{}) : make(Of<Member>{});
    else
      schema = make(Of<Member>{});
    if (std::isfinite(field.rules.minimum)) schema["minimum"] = number(field.rules.minimum);
    if (std::isfinite(field.rules.maximum)) schema["maximum"] = number(field.rules.maximum);
    if (field.rules.min_length > 0) schema["minLength"] = field.rules.min_length;
    // Draft 7 ignores what is next to a $ref, so a reference with a description is wrapped.
    if (schema.contains("$ref")) schema = {{"allOf", {std::move(schema)}}};
    schema["description"] = field.doc;
    return schema;
  }
  static nlohmann::json number(double value) {
    if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
    return value;
  }

  nlohmann::json definitions_ = nlohmann::json::object();
};

}  // namespace assay
