#include "harness/conductor/cli/command_io.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "harness/conductor/store/machine_store.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/core/text.hpp"
#include "harness/report/environment_difference.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/report_json.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

const std::string& start_of(const Report& report) { return report.run.start; }

void add_from_folder(ReportsToCompare& reports, const fs::path& folder, const std::string& current) {
  const auto fingerprint = shared_fingerprint(reports.current);
  if (!fingerprint) {
    reports.why =
        fmt::format("{}: {}, so no baseline in {} can match it", current,
                    reports.current.environments.size() > 1 ? "ran on unlike machines"
                                                            : "does not say on which processor it ran",
                    folder.string());
    return;
  }
  std::vector<Report> found;
  for (const fs::path& file : MachineStore(folder).files_of(*fingerprint)) found.push_back(load_report(file));
  if (found.empty()) {
    const fs::path place = folder / *fingerprint;
    reports.why =
        fmt::format("no baseline of this machine ({}): {} has no report; make one with: assay run … --out {}",
                    machine_text(reports.current.environment), place.string(), (place / "1.json").string());
    return;
  }
  std::ranges::stable_sort(found, {}, start_of);
  // Those that are not comparable, such as at another speed, are the first to be left out.
  std::ranges::stable_partition(found, [&](const Report& base) {
    return other_machine(base.environment, reports.current.environment).has_value();
  });
  if (found.size() > max_baselines_of_folder)
    found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(max_baselines_of_folder));
  for (Report& report : found) reports.bases.push_back(std::move(report));
}

}  // namespace

Report load_report(const std::string& file, Contradictions contradictions) {
  Report report = read_report(file == "-" ? "/dev/stdin" : file);
  if (const std::vector<std::string> faults = invariant_violations(report); !faults.empty()) {
    const std::string text = fmt::format(
        "{}: contradicts itself: {}{}; for all contradictions run assay validate", file,
        one_line(faults.front()), faults.size() > 1 ? fmt::format(" (and {} more)", faults.size() - 1) : "");
    if (contradictions == Contradictions::rejected) throw JsonError(text);
    warn(text);
  }
  if (const std::string other = other_rules(report); !other.empty()) warn(file + ": " + other);
  return report;
}

ReportsToCompare load_reports_to_compare(const std::vector<std::string>& bases, const std::string& current) {
  ReportsToCompare reports;
  reports.current = load_report(current);
  for (const std::string& base : bases) {
    std::error_code ignored;
    if (fs::is_directory(base, ignored))
      add_from_folder(reports, base, current);
    else
      reports.bases.push_back(load_report(base));
  }
  std::ranges::stable_sort(reports.bases, {}, start_of);
  return reports;
}

}  // namespace assay::cli
