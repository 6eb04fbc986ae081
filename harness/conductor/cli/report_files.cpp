#include "harness/conductor/cli/command_io.hpp"

#include <filesystem>
#include <future>

#include <fmt/format.h>

#include "harness/core/json/strict_json.hpp"
#include "harness/core/text.hpp"
#include "harness/report/environment_difference.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/report_json.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

TwoReports from_folder(const fs::path& folder, const std::string& current) {
  TwoReports two;
  two.current = load_report(current);
  const auto fingerprint = shared_fingerprint(two.current);
  if (!fingerprint) {
    two.why = fmt::format("{}: {}, so no baseline in {} can match it", current,
                          two.current.environments.size() > 1 ? "ran on unlike machines"
                                                              : "does not say on which processor it ran",
                          folder.string());
    return two;
  }
  const fs::path file = folder / (*fingerprint + ".json");
  std::error_code ignored;
  if (fs::exists(file, ignored))
    two.base = load_report(file.string());
  else
    two.why =
        fmt::format("no baseline of this machine ({}): {} does not exist; make it with: assay run … --out {}",
                    machine_text(two.current.environment), file.string(), file.string());
  return two;
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

TwoReports load_two(const std::string& base, const std::string& current) {
  std::error_code ignored;
  if (fs::is_directory(base, ignored)) return from_folder(base, current);
  TwoReports two;
  auto other = std::async(std::launch::async, [&] { return load_report(current); });
  two.base = load_report(base);
  two.current = other.get();
  return two;
}

}  // namespace assay::cli
