// The report on disk: strict JSON of the schema "assay-report/2" (results/schema/report-2.schema.json). Also
// reads version 1.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/report/report.hpp"

namespace assay {

inline constexpr std::string_view report_schema = "assay-report/2";
inline constexpr std::string_view first_report_schema = "assay-report/1";
// The highest minor version. A report gets the lowest one that has all of its fields: 1; 2 for a shard, a
// merged report or published weights; 3 if its blocks have `enqueue_ns`; 4 if forks are `examined`; 5 if its blocks
// have `minor_faults`, or forks `host_start_rss`; 6 if forks have a `placement`; 7 if forks have `ranks`; 8 if ranks
// have an `exchange`, or forks `loopback_bytes`; 9 if a `disturbance` has `waited_ns`; 10 if forks have an
// `adapter_digest`; 11 if a `disturbance` has `seen_ns`, the run has `ended`, or a library is `under_test`; 12 if
// its blocks have an `accuracy`; 13 if a cell is of the kind `runtime`.
inline constexpr int report_schema_minor = 13;

// The text of the file. A number that is not finite is null with a reason: in a metric as `reason`, in a
// column the word "nan", elsewhere "not_finite": {"<field>": "nan"}, from which it is read back. Numbers keep
// every bit.
std::string report_text(const Report& report);
nlohmann::json to_json(const Report& report);

// Derives flags and metrics with older rules again, see derive_again(). Throws JsonError
// (harness/core/json/strict_json.hpp) naming the file and a field that is wrong, missing or of another type.
// Rejects a report with a newer schema by its name. Ignores unknown fields.
Report report_from(const nlohmann::json& document, std::string_view where);
Report parse_report(std::string_view text, std::string_view where);
Report read_report(const std::filesystem::path& file);

// Reads as much of the report as possible. `violations` gets at most 20 errors, each as "cells/3/axes/batch:
// …". `strict` also rejects unknown fields, except those whose name begins with "x_"; version 1 is never read
// strictly. Throws JsonError if it is not a report, or has an unknown schema.
// `where` names the document in them.
Report report_from(const nlohmann::json& document, std::string_view where, bool strict,
                   std::vector<std::string>& violations);

// A sentence if its flags and metrics were derived by newer rules than this program's; else empty.
std::string other_rules(const Report& report);

// The text of results/schema/report-2.schema.json.
std::string report_schema_text();

}  // namespace assay
