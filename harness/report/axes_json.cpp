#include "harness/report/axes_json.hpp"

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

}  // namespace assay
