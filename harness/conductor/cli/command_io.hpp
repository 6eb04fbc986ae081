// Reads reports and prints text for the commands. Results go to stdout, everything else to stderr.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/conductor/print/table.hpp"
#include "harness/core/error.hpp"
#include "harness/report/report.hpp"

namespace assay::cli {

// The command line, or a file that it names, is wrong: exit code 2. The text says what is wrong, where, and
// how to fix it.
class UsageError : public Error {
 public:
  using Error::Error;
};

// They throw IoError when stdout cannot be written (a full disk, a closed descriptor), and std::system_error
// when the reader closed the pipe.
void print(std::string_view text);
void print(const std::vector<Table>& tables);
void print_json(const nlohmann::json& json);

// Prints a line to stderr: "assay: …".
void warn(std::string_view text);

// The command line names a report by its file, or by "-" for standard input.

// How to handle a report whose parts contradict each other (`assay validate` rejects it): it may be shown,
// but it must not decide a verdict.
enum class Contradictions { rejected, shown };

// Throws JsonError. Warns if another version of the rules computed the metrics, and about contradictions that
// are shown.
Report load_report(const std::string& file, Contradictions contradictions = Contradictions::rejected);

struct ReportsToCompare {
  std::vector<Report>
      bases;  // the newest last; empty: the folder of baselines has none of this machine, see `why`
  Report current;
  std::string why;
};
inline constexpr std::size_t max_baselines_of_folder = 10;
// Reads the baselines and the new report. Of a folder of baselines it takes those of the machine of `current`: the file
// named after it (its fingerprint), and all reports in the subfolder of that name, the newest max_baselines_of_folder of
// them.
ReportsToCompare load_reports_to_compare(const std::vector<std::string>& bases, const std::string& current);

}  // namespace assay::cli
