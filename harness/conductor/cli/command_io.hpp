// What commands read and write: reports and text. stdout gets results, stderr everything else.
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

// The command line, or a file that it names, is not what the program can use: exit code 2.

// The text says what was seen, where, and the remedy.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Throw IoError when stdout cannot take it (a full disk, a closed descriptor), and std::system_error when nobody reads
// the pipe.
void print(std::string_view text);
void print(const std::vector<Table>& tables);
void print_json(const nlohmann::json& json);

// A line to stderr: "assay: …".
void warn(std::string_view text);

// Reports as the command line names them: a file, or "-" for standard input.

// What is done with a report whose parts contradict each other, which validate rejects: nothing is decided by it, but it
// may be looked at.
enum class Contradictions { refused, shown };

// Throws JsonError. Warns where other rules than this program's made its metrics, and of contradictions that are shown.
Report load_report(const std::string& file, Contradictions contradictions = Contradictions::refused);

struct TwoReports {
  std::optional<Report> base;  // nothing where a folder of baselines has none of this machine: `why`
  Report current;
  std::string why;
};
// Both at once, on two threads where both are files. Of a folder of baselines the one that is named after the
// machine of `current`.
TwoReports load_two(const std::string& base, const std::string& current);

}  // namespace assay::cli
