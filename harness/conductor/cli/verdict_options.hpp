// The common options of compare and ab: the confidence, the thresholds and the output format.
#pragma once

#include <string>

#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/compare/cell_decision.hpp"
#include "harness/conductor/compare/compare.hpp"
#include "harness/conductor/compare/time_decision.hpp"
#include "harness/conductor/config/options.hpp"

namespace assay::cli {

class VerdictOptions {
 public:
  void add(CLI::App& command, Context& context);

  // Throw UsageError, and ConfigError for a share.
  double threshold() const { return share_of(threshold_, "--threshold", max_threshold); }
  double confidence() const { return share_of(confidence_, "--confidence", max_confidence); }
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
