// assay validate: the schema, and the invariants that a schema cannot say.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/print.hpp"
#include "harness/conductor/cli/report_files.hpp"
#include "harness/conductor/run/exit_code.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/report_json.hpp"
#include "harness/report/schema.hpp"
#include "harness/report/strict_document.hpp"

namespace assay::cli {
namespace {

struct ValidateOptions {
  std::vector<std::string> files;
  bool schema = false;
};

std::vector<std::string> faults_of(const std::string& file) {
  try {
    const StrictDocument document = read_strict_document(file == "-" ? "/dev/stdin" : file);
    require_report_schema(document);
    std::vector<std::string> faults = schema_violations(document);
    if (faults.empty()) faults = invariant_violations(report_from(document));
    for (std::string& fault : faults) fault = file + ": " + fault;
    return faults;
  } catch (const JsonError& error) {
    return {error.what()};
  }
}

int validate(const ValidateOptions& options) {
  if (options.schema) {
    print(report_schema_text());
    return fine;
  }
  int code = fine;
  for (const std::string& file : options.files) {
    const auto faults = faults_of(file);
    for (const std::string& fault : faults) warn(fault);
    if (faults.empty())
      print(fmt::format("{}: valid ({})\n", file, report_schema));
    else
      code = bad_input;
  }
  return code;
}

}  // namespace

void add_validate(CLI::App& app, Context& context) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* command =
      app.add_subcommand("validate", "Check reports against the schema and the invariants it cannot say");
  CLI::Option* files = command->add_option("REPORT", options->files, "Reports; - is standard input");
  command->add_flag("--schema", options->schema, "Print the JSON Schema instead")->excludes(files);
  command->callback([options, files, &context] {
    if (!options->schema && files->empty()) throw CLI::RequiredError("REPORT");
    context.action = [options] { return validate(*options); };
  });
}

}  // namespace assay::cli
