#include "harness/report/axes_json.hpp"

#include "harness/core/json/schema.hpp"

namespace assay {

FieldRules axis_rules(const Axis& axis) {
  const Option& option = axis.option;
  FieldRules rules;
  if (option.type == OptionType::text) {
    rules.min_length = axis.applies == AppliesTo::network ? 0 : 1;
    if (!axis.other_words) std::copy(option.choices.begin(), option.choices.end(), rules.choices.begin());
  } else if (option.type == OptionType::integer) {
    rules.minimum = option.min;
  }
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
    switch (axis.option.type) {
      case OptionType::text:
        schema = maker.of<std::string>();
        break;
      case OptionType::integer:
        schema = maker.of<std::int64_t>();
        break;
      case OptionType::number:
        schema = maker.of<double>();
        break;
      case OptionType::flag:
        schema = maker.of<bool>();
        break;
    }
    SchemaMaker::add_rules(schema, axis_rules(axis));
    schema["description"] = axis.option.help;
    if (axis.applies != AppliesTo::op) required.push_back(axis.key());
  }
  properties["variant"] = maker.of<std::map<std::string, std::string>>();
  properties["variant"]["description"] = fmt::format(
      "The axes {} by the name of their option, where they differ from the default or the workload's own: "
      "`{{\"schedule\": \"every:10x0.9\"}}`.",
      others);
  return {{"description", "What identifies the cell within the report."},
          {"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)}};
}

}  // namespace assay
