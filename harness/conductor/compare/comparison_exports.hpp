// Exports a comparison for programs (JSON, JUnit XML, annotations of GitHub Actions, the Markdown of a pull
// request) and for people (tables).
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/print/table.hpp"

namespace assay {

// {"schema": "assay-comparison/1", "cells": [...], "environment": [...], "counts": {...}, "exit_code": n};
// absent values are null.
nlohmann::json comparison_json(const Comparison& comparison, int exit_code);

// One test case per cell: slower and broken are failures, missing is an error, inconclusive is skipped.
std::string comparison_junit(const Comparison& comparison);

// One "::error", "::warning" or "::notice" line for each cell that is not `same`, and one for each hard
// difference.
std::string comparison_annotations(const Comparison& comparison);

// Fewer than GitHub's limit of 65,536 characters: a marker by which a bot finds its own comment, the summary,
// the cells that are not `same`, and the rest folded.
std::string comparison_markdown(const Comparison& comparison);

// The verdicts, most urgent first, and the differences of the environments. At most `max_shown` rows (0:
// all); a note counts the rest.
std::vector<Table> comparison_tables(const Comparison& comparison, std::size_t max_shown = 0);

}  // namespace assay
