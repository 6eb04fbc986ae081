// The axes as an object of the report: {"workload": "lenet5", "backend": "onednn", …}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/json/decode.hpp"
#include "harness/core/json/fields.hpp"
#include "harness/report/axes.hpp"

namespace assay {

nlohmann::json encode(const Axes& axes);
nlohmann::json schema_of(Of<Axes>);
// The rules of an axis apart from its type.
FieldRules axis_rules(const Axis& axis);

template <typename Node>
void decode_with(const Decoder<Node>& decoder, const Node& node, const JsonPlace& place, Axes& axes) {
  if (!node.is_object()) return decoder.fail(place, "should be an object");
  const auto& table = axis_table();
  std::vector<bool> seen(table.size());
  node.each_member([&](std::string_view key, const Node& item) {
    const JsonPlace at(place, key);
    if (key == "variant") return decoder.read(item, at, axes.variant);
    for (std::size_t i = 0; i < table.size(); ++i) {
      const Axis& axis = table[i];
      if (!axis.has_field() || !axis.has_key(key)) continue;
      seen[i] = true;
      return std::visit(
          [&](auto field) {
            if constexpr (!std::is_same_v<decltype(field), std::monostate>) {
              auto& value = axes.*field;
              // A field that exists has a value.
              if constexpr (is_optional<std::remove_reference_t<decltype(value)>>)
                decoder.read(item, at, value.emplace());
              else
                decoder.read(item, at, value);
              decoder.check_rules(at, axis_rules(axis), value);
            }
          },
          axis.field);
    }
    if (decoder.rejects_unknown()) decoder.reject_unknown(at, key);
  });
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].has_field() && table[i].applies != AppliesTo::op && !seen[i])
      decoder.fail(place, fmt::format("the field \"{}\" is missing", table[i].key()));
  }
}

}  // namespace assay
