#include "harness/core/json/schema.hpp"

#include <cmath>

namespace assay {
namespace {

using Json = nlohmann::json;

Json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

Json described(Json schema, const Field& field) {
  // Draft 7 ignores what is next to a $ref, so a reference with a description is wrapped.
  if (schema.contains("$ref")) schema = {{"allOf", {std::move(schema)}}};
  schema["description"] = field.doc;
  return schema;
}

Json required(const Description& description) {
  Json required_names = Json::array();
  for (const Field& field : description.list)
    if (!field.rules.may_be_missing) required_names.push_back(field.key);
  return required_names;
}

Json reference(const std::string& name) { return {{"$ref", "#/definitions/" + name}}; }

}  // namespace

struct SchemaMaker::Maker {
  SchemaMaker& maker;

  Json operator()(const BooleanType&) const { return {{"type", "boolean"}}; }
  Json operator()(const IntegerType& type) const {
    Json schema{{"type", "integer"}};
    if (!type.is_signed) schema["minimum"] = 0;
    return schema;
  }
  Json operator()(const DoubleType&) const { return {{"type", {"number", "null"}}}; }
  Json operator()(const FloatType&) const { return {{"type", "number"}}; }
  Json operator()(const TextType&) const { return {{"type", "string"}}; }
  Json operator()(const ViewType&) const { return {{"type", "string"}}; }
  Json operator()(const PathType&) const { return {{"type", "string"}}; }
  Json operator()(const AnyType&) const { return Json::object(); }
  Json operator()(const WordType& type) const {
    Json words = Json::array();
    for (const std::string_view word : type.words) words.push_back(word);
    return {{"enum", std::move(words)}};
  }
  Json operator()(const OptionalType& type) const {
    Json schema = maker.of(*type.inner);
    if (schema.contains("type") && schema["type"].is_string())
      schema["type"] = {schema["type"], "null"};
    else if (!schema.contains("type"))
      schema = {{"anyOf", {std::move(schema), {{"type", "null"}}}}};
    return schema;
  }
  Json operator()(const ListType& type) const {
    return {{"type", "array"}, {"items", maker.of(*type.inner)}};
  }
  Json operator()(const MapType& type) const {
    return {{"type", "object"}, {"additionalProperties", maker.of(*type.inner)}};
  }
  Json operator()(const ObjectType& type) const {
    const Description& description = type.description();
    const std::string name(description.name);
    if (!maker.definitions_.contains(name)) {
      maker.definitions_[name] = nullptr;  // reserves the name while its fields are made
      Json object = maker.object(description);
      maker.definitions_[name] = std::move(object);
    }
    return reference(name);
  }
  Json operator()(const OwnType& type) const { return type.schema(); }
};

Json SchemaMaker::of(const Type& type) { return std::visit(Maker{*this}, type.kind); }

Json SchemaMaker::object(const Description& description) {
  Json properties = Json::object();
  for (const Field& field : description.list) properties[field.key] = described(of_field(field), field);
  return {{"description", description.doc},
          {"type", "object"},
          {"properties", std::move(properties)},
          {"required", required(description)}};
}

Json SchemaMaker::columns(const Description& description) {
  const std::string name = std::string(description.name) + "_columns";
  Json properties = Json::object();
  for (const Field& field : description.list) properties[field.key] = described(of_column(field), field);
  definitions_[name] = {{"description", description.doc},
                        {"type", "object"},
                        {"properties", std::move(properties)},
                        {"anyOf", {{{"maxProperties", 0}}, {{"required", required(description)}}}}};
  return reference(name);
}

// A list, or one value for all rows. A number that is not finite is a word.
Json SchemaMaker::of_column(const Field& field) {
  const auto* optional = field.type->as<OptionalType>();
  Json entry = of_field(field);
  if (field.type->is_double()) {
    Json words(not_finite_words);
    if (optional || field.rules.null_is_nan) words.push_back(nullptr);
    entry["type"] = "number";
    entry = {{"anyOf", {std::move(entry), {{"enum", std::move(words)}}}}};
  }
  Json list{{"type", "array"}, {"items", entry}};
  const Type& inner = optional ? *optional->inner : *field.type;
  if (!inner.as<ListType>()) return {{"anyOf", {std::move(list), std::move(entry)}}};
  if (!optional) return list;  // a list is always a column, never one value for all rows
  return {{"anyOf", {std::move(list), {{"type", "null"}}}}};
}

Json SchemaMaker::of_field(const Field& field) {
  const auto* list = field.type->as<ListType>();
  Json schema = field.rules.columns ? columns(list->inner->as<ObjectType>()->description()) : of(*field.type);
  add_rules(schema, field.rules);
  return schema;
}

void SchemaMaker::add_rules(Json& schema, const FieldRules& rules) {
  const bool list = schema.value("type", Json()) == "array";
  const bool map = schema.contains("additionalProperties");
  Json& numbers = list ? schema["items"] : map ? schema["additionalProperties"] : schema;
  if (std::isfinite(rules.minimum)) numbers["minimum"] = number(rules.minimum);
  if (std::isfinite(rules.maximum)) numbers["maximum"] = number(rules.maximum);
  if (rules.min_length > 0) schema[list ? "minItems" : "minLength"] = rules.min_length;
  if (rules.object && !schema.contains("$ref")) schema["type"] = "object";
  if (rules.unique) schema["uniqueItems"] = true;
  for (const std::string_view choice : rules.choices)
    if (!choice.empty()) schema["enum"].push_back(choice);
}

}  // namespace assay
