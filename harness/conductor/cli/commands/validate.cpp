// assay validate: checks the fields of a report and the invariants that a schema cannot express.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/cli/command_io.hpp"
#include "harness/conductor/cli/commands/commands.hpp"
#include "harness/conductor/cli/exit_code.hpp"
#include "harness/conductor/print/printers.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/report_json.hpp"

namespace assay::cli {
namespace {

struct ValidateOptions {
  std::vector<std::string> files;
  bool schema = false, analysis_schema = false;
  bool strict = false;
  std::string upgrade;
};

struct Validated {
  Report report;
  std::vector<std::string> faults;
};

Validated validated(const std::string& file, bool strict) {
  Validated found;
  try {
    const nlohmann::json document = read_strict_json(file == "-" ? "/dev/stdin" : file);
    found.report = report_from(document, file, strict, found.faults);
    if (found.faults.empty()) found.faults = invariant_violations(found.report);
    for (std::string& fault : found.faults) fault = file + ": " + fault;
  } catch (const JsonError& error) {
    found.faults = {error.what()};
  }
  return found;
}

int validate(const ValidateOptions& options) {
  if (options.schema || options.analysis_schema) {
    print(options.schema ? report_schema_text() : analysis_schema_text());
    return fine;
  }
  if (!options.upgrade.empty() && options.files.size() != 1)
    throw UsageError("validate: --upgrade takes only one REPORT");
  int code = fine;
  for (const std::string& file : options.files) {
    const Validated found = validated(file, options.strict);
    for (const std::string& fault : found.faults) warn(fault);
    if (!found.faults.empty()) {
      code = bad_input;
      continue;
    }
    if (const std::string other = other_rules(found.report); !other.empty()) warn(file + ": " + other);
    print(fmt::format("{}: valid ({})\n", file, found.report.schema));
    if (!options.upgrade.empty()) write_atomically(options.upgrade, report_text(found.report));
  }
  return code;
}

}  // namespace

void add_validate(CLI::App& app, Context& context) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = app.add_subcommand(
      "validate", "Check reports against the schema and the invariants that it cannot express");
  CLI::Option* files = command->add_option("REPORT", options->files, "Reports; - is standard input");
  CLI::Option* schema = command->add_flag("--schema", options->schema, "Print the JSON Schema instead");
  schema->excludes(files);
  command
      ->add_flag("--analysis-schema", options->analysis_schema,
                 "Print the JSON Schema of what `assay show --format json` writes")
      ->excludes(files)
      ->excludes(schema);
  command->add_flag("--strict", options->strict, "Reject fields that are not in the schema (except x_...)");
  command
      ->add_option("--upgrade", options->upgrade,
                   "If the report is valid, write it to this file in the current version")
      ->type_name("FILE");
  add_examples(*command, {"assay validate reports/mlp.json", "assay validate --schema"});
  command->callback([options, files, &context] {
    if (!options->schema && !options->analysis_schema && files->empty()) throw CLI::RequiredError("REPORT");
    context.action = [options] { return validate(*options); };
  });
}

}  // namespace assay::cli
