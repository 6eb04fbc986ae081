#include "harness/report/axes_json.hpp"

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/decode.hpp"
#include "harness/core/json/schema.hpp"

namespace assay {

namespace {

nlohmann::json schema_of_field(SchemaMaker&, std::monostate) { return nlohmann::json::object(); }
template <typename T>
nlohmann::json schema_of_field(SchemaMaker& maker, T Axes::*) {
  return maker.of<T>();
}
// An absent value has no field.
template <typename T>
nlohmann::json schema_of_field(SchemaMaker& maker, std::optional<T> Axes::*) {
  return maker.of<T>();
}

void read_axis(const Decoder&, const nlohmann::json&, const JsonPlace&, const Axis&, std::monostate, Axes&) {}
template <typename T>
void read_axis(const Decoder& decoder, const nlohmann::json& json, const JsonPlace& place, const Axis& axis,
               T Axes::* field, Axes& axes) {
  T& value = axes.*field;
  // A field that exists has a value.
  if constexpr (requires { value.emplace(); })
    decoder.read(json, place, value.emplace());
  else
    decoder.read(json, place, value);
  decoder.check_rules(place, axis_rules(axis), value);
}

}  // namespace

FieldRules axis_rules(const Axis& axis) {
  FieldRules rules;
  if (std::holds_alternative<std::string Axes::*>(axis.field) && axis.applies != AppliesTo::network)
    rules.min_length = 1;
  if (axis.option.type == OptionType::integer) rules.minimum = axis.option.min;
  return rules;
}

nlohmann::json encode(const Axes& axes) {
  nlohmann::json out = nlohmann::json::object();
  for (const Axis& axis : axis_table())
    if (axis.has_field() && (axis.applies != AppliesTo::op || axes.is_op()))
      out[axis.key()] = axis_json(axis, axes);
  if (!axes.variant.empty()) out["variant"] = axes.variant;
  return out;
}

nlohmann::json schema_of(Of<Axes>) {
  SchemaMaker maker;
  nlohmann::json properties = nlohmann::json::object(), required = nlohmann::json::array();
  std::string others;
  for (const Axis& axis : axis_table()) {
    if (!axis.has_field()) {
      others += fmt::format("{}`{}`", others.empty() ? "" : ", ", axis.name());
      continue;
    }
    nlohmann::json& schema = properties[axis.key()];
    schema = std::visit([&](auto field) { return schema_of_field(maker, field); }, axis.field);
    SchemaMaker::add_rules(schema, axis_rules(axis));
    schema["description"] = axis.option.help;
    if (axis.applies != AppliesTo::op) required.push_back(axis.key());
  }
  properties["variant"] = maker.of<std::map<std::string, std::string>>();
  properties["variant"]["description"] = fmt::format(
      "The axes {} by the name of their option, if they differ from the default or the workload's own value: "
      "`{{\"schedule\": \"every:10x0.9\"}}`.",
      others);
  return {{"description", "The values that identify the cell within the report."},
          {"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)}};
}

void decode_with(const Decoder& decoder, const nlohmann::json& json, const JsonPlace& place, Axes& axes) {
  if (!json.is_object()) return decoder.fail(place, "should be an object");
  const auto& table = axis_table();
  std::vector<bool> seen(table.size());
  const auto read = [&](const std::string& key, const nlohmann::json& item) {
    const JsonPlace at(place, key);
    if (key == "variant") return decoder.read(item, at, axes.variant);
    for (std::size_t i = 0; i < table.size(); ++i) {
      const Axis& axis = table[i];
      if (!axis.has_field() || !axis.has_key(key)) continue;
      seen[i] = true;
      return std::visit([&](auto field) { read_axis(decoder, item, at, axis, field, axes); }, axis.field);
    }
    if (decoder.rejects_unknown()) decoder.reject_unknown(at, key);
  };
  for (const auto& [key, item] : json.items()) read(key, item);
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].has_field() && table[i].applies != AppliesTo::op && !seen[i])
      decoder.fail(place, fmt::format("the field \"{}\" is missing", table[i].key()));
  }
}

}  // namespace assay
