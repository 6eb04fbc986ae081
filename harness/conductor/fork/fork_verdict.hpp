// Why a fork that ran to its end does not count as correct.
#pragma once

#include <string>

#include "harness/conductor/backends/backend_digest.hpp"
#include "harness/conductor/check/equivalence.hpp"
#include "harness/conductor/config/cell.hpp"
#include "harness/conductor/data/preparation.hpp"
#include "harness/report/report.hpp"

namespace assay {

// A framework that was told not to compile is timed as something else than its row says.
void reject_uncompiled(Fork& fork, const Cell& cell);

// A worker may load a script at any time until it has run.
void reject_changed_backend(Fork& fork, const BackendDescription& backend, const BackendDigest& before);

// Workers read the files of some sets themselves, and what failed then may be due to the new files. False: nothing was
// changed since the set was prepared.
bool reject_changed_data(Fork& fork, const PreparedDataset& data);

// Adds to a wrong result that the worker computes in another precision than that of the cell, if it says so.
void explain_precision(Equivalence& verified, const Fork& fork, const Cell& cell);

// Values that are not finite spread in each library in its own way, so a run that ended with them says nothing about
// the library.
// Warns if the logits of a network in a narrower precision have hardly any of its rounding.
void warn_of_wider_precision(Fork& fork, const Equivalence& verified, const Cell& cell);
void reject_infinite_parameters(Fork& fork, Equivalence& verified);

// Ranks that exchange their gradients end with the same bits. The exam, which sets their state, cannot see what they did
// before.
void reject_unlike_ranks(Fork& fork, Equivalence& verified);

// Sets the status of a fork from the exam and from changed files.
void resolve_exam(Fork& fork, const Equivalence& equivalence, const std::string& changed);

}  // namespace assay
