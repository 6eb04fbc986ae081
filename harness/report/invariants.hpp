// Rules of a report that a schema cannot express: the numbers must agree with each other.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/report/report.hpp"

namespace assay {

// Returns each violation as "<cell id>: what is wrong"; empty if the report is consistent. Pure; accepts any
// Report.
std::vector<std::string> invariant_violations(const Report& report);

// It passed its check, or is the oracle itself without one.
bool is_equal_to_oracle(const CellReport& cell);
// Whether the cell may be ranked: it is ok, equal to the oracle, and has no quality flag.
bool is_clean(const CellReport& cell);

// The invariants, grouped by their subject; invariants.cpp calls them all.

// Collects violations under the name of their subject.
class Violations {
 public:
  explicit Violations(std::string subject) : subject_(std::move(subject)) {}

  void add(std::string what) { found_.push_back(subject_ + ": " + std::move(what)); }
  Violations within(const std::string& part) const { return Violations(subject_ + ": " + part); }
  void take(const Violations& other) {
    found_.insert(found_.end(), other.found_.begin(), other.found_.end());
  }
  const std::vector<std::string>& found() const { return found_; }

 private:
  std::string subject_;
  std::vector<std::string> found_;
};

// For a fork or a cell: the code must belong to the status.
void validate_code(Violations& violations, Status status, ReasonCode code);
void validate_fork(Violations& violations, const Fork& fork);
void validate_cell(Violations& violations, const CellReport& cell);
void validate_metric(Violations& violations, const std::string& name, const Metric& metric);
void validate_equivalence(Violations& violations, const CellReport& cell);
// Compares the numbers and the flags of a cell with what its forks give by rules 3, by which a round that was disturbed
// for one cell counted for none. Values that have another meaning today are left out. Leaves the cell as it was.
void validate_by_rules_3(Violations& violations, CellReport& cell);
// Compares the metrics, the flags and the status with what the forks give, by the rules of this program.
void validate_derived(Violations& violations, const CellReport& cell);
// Compares the flags of forks that follow from other forks of their round.
void validate_marks(Violations& violations, const Report& report);

}  // namespace assay
