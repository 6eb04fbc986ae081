// The axes as an object of the report: {"workload": "lenet5", "backend": "onednn", …}.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "harness/core/json/fields.hpp"
#include "harness/report/axes.hpp"

namespace assay {

nlohmann::json encode(const Axes& axes);
nlohmann::json schema_of(Of<Axes>);
// The rules of an axis apart from its type.
FieldRules axis_rules(const Axis& axis);

void decode_with(const Decoder& decoder, const nlohmann::json& json, const JsonPlace& place, Axes& axes);

}  // namespace assay
