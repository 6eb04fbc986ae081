// The report on disk: strict JSON of the schema "assay-report/2" (results/schema/report-2.schema.json). Version 1 is
// read, too.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/report/report.hpp"

namespace assay {

class StrictDocument;

inline constexpr std::string_view report_schema = "assay-report/2";
inline constexpr std::string_view first_report_schema = "assay-report/1";
inline constexpr int report_schema_minor = 1;

// The text of the file. A number that is not finite is null with its reason: in a metric as `reason`, in a column the
// word "nan", elsewhere "not_finite": {"<field>": "nan"}, from which it is read back. Numbers keep every bit.
std::string report_text(const Report& report);
nlohmann::json to_json(const Report& report);

// Flags and metrics that older rules derived are derived anew, see derive_anew().
// Throw JsonError (harness/core/json/strict_json.hpp) naming the file and the field that is wrong, missing or of
// another type. A report of a newer schema is refused by its name. Fields that are not known are ignored, and run,
// libraries and operators are kept unchecked.
Report report_from(const StrictDocument& document);
Report parse_report(std::string text, std::string_view where);
Report read_report(const std::filesystem::path& file);

// Reads the report as far as it goes; what is wrong is in `violations`, each as "cells/3/axes/batch: …", at most 20.
// `strict` also refuses fields that are not known, but for those whose name begins with "x_"; version 1 is never read
// strictly. Throws JsonError when it is not a report, or one of a schema that this program does not know.
Report report_from(const StrictDocument& document, bool strict, std::vector<std::string>& violations);

// Empty, or a sentence: its flags and metrics were derived by newer rules than this program's.
std::string other_rules(const Report& report);

// The text of results/schema/report-2.schema.json.
std::string report_schema_text();

}  // namespace assay
