// A comparison for programs (JSON, JUnit XML, annotations of GitHub Actions, the Markdown of a pull request) and
// for people (tables for a terminal or a pull request).
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/print/table.hpp"

namespace assay {

// {"schema": "assay-comparison/1", "cells": [...], "environment": [...], "counts": {...}, "exit_code": n};
// what is absent is null.
nlohmann::json comparison_json(const Comparison& comparison, int exit_code);

// One test case a cell: slower and broken are failures, missing is an error, inconclusive is skipped.
std::string comparison_junit(const Comparison& comparison);

// One "::error", "::warning" or "::notice" line for each cell that is not `same`, and one for each hard
// difference.
std::string comparison_annotations(const Comparison& comparison);

// Below GitHub's limit of 65,536 characters: a marker by which a bot finds its own comment, the summary, the
// cells that are not `same`, the rest folded away.
std::string comparison_markdown(const Comparison& comparison);

// Verdicts, worst first, and what differs between the environments. `most` rows (0: all); a note counts the
// rest.
std::vector<Table> comparison_tables(const Comparison& comparison, std::size_t most = 0);

}  // namespace assay
