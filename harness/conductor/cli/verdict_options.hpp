// The common options of compare and ab: the confidence, the thresholds and the output format.
#pragma once

#include <string>

#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/compare/cell_judge.hpp"
#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/compare/time_judge.hpp"

namespace assay::cli {

// "5%" or "0.05", above 0 and below `max`. A value above 1 needs the percent sign. Throws UsageError.
double share(const std::string& text, const std::string& option, double max);
// The inverse of share(): 0.05 becomes "5%".
std::string as_percent(double part);

class VerdictOptions {
 public:
  void add(CLI::App& command, Context& context);

  // Throw UsageError.
  double threshold() const { return share(threshold_, "--threshold", 10); }
  double confidence() const { return share(confidence_, "--confidence", 1); }
  BreakageSettings breakage() const;
  void require_format() const;
  const std::string& metric() const { return metric_; }

  // Prints to stdout in the requested format; `code` is the exit code of the program.
  void print(const Comparison& comparison, int code) const;

 private:
  std::string format_ = "console", metric_;
  std::string threshold_ = as_percent(usual_threshold), confidence_ = as_percent(usual_confidence),
              memory_threshold_ = "10%", accuracy_threshold_ = "1%";
};

}  // namespace assay::cli
