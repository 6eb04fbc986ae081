// The axes as an object of the report: {"workload": "lenet5", "backend": "onednn", …}.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "harness/core/json/decode.hpp"
#include "harness/core/json/fields.hpp"
#include "harness/report/axes.hpp"

namespace assay {

nlohmann::json encode(const Axes& axes);
nlohmann::json schema_of(Of<Axes>);
// What holds for the axis of that key apart from its type.
const FieldRules& axis_rules(std::string_view key);

// visit(key, member, required) of everything in the object.
template <typename AnyAxes, typename Visit>
void for_each_axis_field(AnyAxes& axes, const Visit& visit) {
  for_each_axis(axes, [&](const auto& key, auto& member) { visit(key, member, true); });
  visit("variant", axes.variant, false);
  visit("size", axes.size, false);
  visit("cache", axes.cache, false);
}

template <typename Node>
void decode_with(const Decoder<Node>& decoder, const Node& node, const JsonPlace& place, Axes& axes) {
  if (!node.is_object()) return decoder.fail(place, "should be an object");
  std::set<std::string, std::less<>> seen;
  node.each_member([&](std::string_view key, const Node& item) {
    for_each_axis_field(axes, [&](std::string_view axis, auto& member, bool) {
      if (axis != key) return;
      seen.emplace(key);
      const JsonPlace at(place, key);
      decoder.read(item, at, member);
      decoder.check_rules(at, axis_rules(axis), member);
    });
    if (decoder.refuses_unknown() && !seen.contains(key)) decoder.refuse_unknown(JsonPlace(place, key), key);
  });
  for_each_axis_field(axes, [&](std::string_view axis, auto&, bool required) {
    if (required && !seen.contains(axis))
      decoder.fail(place, fmt::format("the field \"{}\" is missing", axis));
  });
}

}  // namespace assay
