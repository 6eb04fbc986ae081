// The report on disk: Report <-> strict JSON of the schema "assay-report/1"
// (results/schema/report-1.schema.json).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "harness/report/report.hpp"

namespace assay {

class StrictDocument;

inline constexpr std::string_view report_schema = "assay-report/1";

// The text of the file. A number that is not finite is null with its reason: in a metric as `reason`,
// elsewhere as "not_finite": {"<field>": "nan"}, from which it is read back. Numbers keep every bit.
std::string report_text(const Report& report);
nlohmann::json to_json(const Report& report);

// Throw JsonError (harness/core/json/strict_json.hpp) naming the file and the field that is wrong, missing or
// of another type. A report of a newer schema is refused by its name. Fields that the schema does not know
// are left out.
Report report_from(const StrictDocument& document);
Report parse_report(std::string text, std::string_view where);
Report read_report(const std::filesystem::path& file);

// Throws JsonError when it is not a report, or one of a schema that this program does not know.
void require_report_schema(const StrictDocument& document);

std::string_view to_string(Hint hint);

}  // namespace assay
