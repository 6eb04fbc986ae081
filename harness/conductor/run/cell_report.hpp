// The row of a cell while its forks come in.
#pragma once

#include <string>

#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/run/fork.hpp"
#include "harness/report/report.hpp"

namespace assay {

// Before anything has run: `interrupted`, for that is true should the program end now. A cell that cannot be
// run has its status.
CellReport planned_report(const Cell& cell, std::uint64_t seed);
// Takes over from an earlier report what need not be run again: forks that were not interrupted, and the
// check.
void take_earlier(CellReport& row, const Report& earlier);
// The libraries of the row become those that the hello names; earlier forks keep theirs.
void take_hello(CellReport& row, const protocol::Hello& hello);
// In words, the first library of the hello that is not the one of these earlier forks; empty: none, or there are no
// earlier forks.
std::string other_library(const CellReport& row, const protocol::Hello& hello);
// A check that failed stands as the fork of round 0, with its log.
void take_failed_check(CellReport& row, const Fork& check);

bool has_round(const CellReport& row, int round);
// A fork went wrong.
bool has_failed(const CellReport& row);
// Whether further forks of the cell are in vain: a wrong result stays wrong, what is unsupported or too large
// stays so, and a time limit was paid once. A crash may be chance: the forks after the first crash still run,
// those after a second do not. A cell whose check was asked for and has not passed has nothing to time.
bool gives_up(const CellReport& row, const Cell& cell);

// Status, reason, flags and metrics from the forks that are there.
void settle_status(CellReport& row, const Cell& cell, int planned);

// For a person: "ok, 2.13 ms a step", "crashed: the worker died of SIGSEGV".
std::string fork_summary(const Fork& fork);
std::string check_summary(Status status, const std::string& reason, const Equivalence& equivalence);

}  // namespace assay
