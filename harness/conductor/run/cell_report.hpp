// The row of a cell while its forks are measured.
#pragma once

#include <string>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/fork/fork.hpp"
#include "harness/report/report.hpp"

namespace assay {

// The row before anything has run: `interrupted`, which is correct if the program ends now. A cell that
// cannot be run keeps its status.
CellReport planned_report(const Cell& cell, const RunSettings& settings);
// Takes forks that were not interrupted, and the check, from an earlier report, so that they are not run
// again.
void take_earlier(CellReport& row, const Report& earlier);
// Sets the libraries of the row to those in the hello; earlier forks keep theirs.
void take_hello(CellReport& row, const protocol::Hello& hello);
// Describes the first library in the hello that differs from the one of these earlier forks; empty without
// a difference or an earlier fork.
std::string other_library(const CellReport& row, const protocol::Hello& hello);
// Records a failed check as the fork of round 0, with its log.
void take_failed_check(CellReport& row, const Fork& check);

bool has_round(const CellReport& row, int round);
// Whether a fork failed.
bool has_failed(const CellReport& row);
// Whether further forks of the cell are useless. A wrong result stays wrong, an unsupported or too large cell
// stays so, and a time limit is expensive. A crash may be random: after the first crash the next forks still
// run, after a second they do not. A cell whose check was requested and has not passed is not timed.
bool gives_up(const CellReport& row, const Cell& cell);

// Status, reason, flags and metrics from the existing forks.
void resolve_status(CellReport& row, const Cell& cell, const RunSettings& settings, int planned);
// Of a run without forks, which only plans: nothing was executed, and nothing is missing.
void resolve_as_plan(CellReport& row, const Cell& cell);

// For the user: "ok, 2.13 ms a step", "crashed: the worker died of SIGSEGV".
std::string fork_summary(const Fork& fork);
std::string check_summary(Status status, const std::string& reason, const Equivalence& equivalence);

}  // namespace assay
