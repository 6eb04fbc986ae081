#include "harness/conductor/cli/man_page.hpp"

#include <cctype>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/backends/build_info.hpp"
#include "harness/conductor/cli/commands/commands.hpp"

namespace assay::cli {
namespace {

// Escapes one line of text, so that roff reads no request or escape in it.
std::string roff(std::string_view plain) {
  std::string out;
  if (plain.starts_with('.') || plain.starts_with('\'')) out = "\\&";
  for (const char c : plain) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// "assay-run"
std::string page_name(const CLI::App& app, const CLI::App& command) {
  return app.get_name() + "-" + command.get_name();
}

std::string head(const std::string& name, const std::string& summary) {
  return fmt::format(".TH {} 1 \"\" \"assay {}\" \"Assay\"\n.SH NAME\n{} \\- {}\n", roff(upper(name)),
                     build_info().version, roff(name), roff(summary));
}

std::string entry(const std::string& term, std::string_view text) {
  return fmt::format(".TP\n{}\n{}\n", term, roff(text));
}

// "\fB\-V\fR, \fB\-\-version\fR", "\fB\-\-out\fR \fIREPORT\fR"
std::string option_term(const CLI::Option& option) {
  std::string term;
  const auto add = [&](const std::string& name) {
    term += fmt::format("{}\\fB{}\\fR", term.empty() ? "" : ", ", roff(name));
  };
  for (const std::string& name : option.get_snames()) add("-" + name);
  for (const std::string& name : option.get_lnames()) add("--" + name);
  if (option.get_items_expected_max() > 0)
    term += fmt::format(" \\fI{}\\fR{}", roff(option.get_type_name()), takes_several(option) ? " ..." : "");
  return term;
}

std::vector<const CLI::Option*> positionals(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

std::string synopsis(const std::string& call, const CLI::App& command) {
  std::string line = fmt::format(".SH SYNOPSIS\n\\fB{}\\fR [\\fIOPTIONS\\fR]", roff(call));
  for (const CLI::Option* option : positionals(command)) {
    const std::string name =
        "\\fI" + roff(option->get_name(true)) + "\\fR" + (takes_several(*option) ? "..." : "");
    line += option->get_required() ? " " + name : " [" + name + "]";
  }
  return line;
}

std::string options_section(const CLI::App& command) {
  std::string page;
  if (const auto arguments = positionals(command); !arguments.empty()) {
    page += ".SH ARGUMENTS\n";
    for (const CLI::Option* option : arguments)
      page += entry("\\fI" + roff(option->get_name(true)) + "\\fR", option->get_description());
  }
  page += ".SH OPTIONS\n";
  for (const std::string& group : command.get_groups()) {
    const auto options = command.get_options(
        [&](const CLI::Option* option) { return option->get_group() == group && option->nonpositional(); });
    if (options.empty() || group.empty()) continue;  // options without a group are hidden
    if (group != "Options") page += fmt::format(".SS {}\n", roff(group));
    for (const CLI::Option* option : options) page += entry(option_term(*option), option->get_description());
  }
  return page;
}

std::string examples_section(const CLI::App& command) {
  std::string page = ".SH EXAMPLES\n.nf\n";
  for (const std::string& call : examples_of(command)) page += roff(call) + "\n";
  return page + ".fi\n";
}

}  // namespace

std::string man_page(const CLI::App& app) {
  std::string page = head(app.get_name(), "compare deep-learning backends on the same network");
  page += synopsis(app.get_name(), app) + " \\fICOMMAND\\fR [...]\n";
  page += fmt::format(".SH DESCRIPTION\n{}\n.SH COMMANDS\n", roff(app.get_description()));
  std::string others;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    page += entry(fmt::format("\\fB{}\\fR", roff(command->get_name())), command->get_description());
    others += fmt::format("{}.BR {} (1)", others.empty() ? "" : ",\n", roff(page_name(app, *command)));
  }
  page += options_section(app);
  const std::string footer = app.get_footer();  // the exit codes, then the examples
  page += fmt::format(".SH EXIT STATUS\n{}\n", roff(footer.substr(0, footer.find("\n\n"))));
  page += examples_section(app);
  return page + ".SH SEE ALSO\n" + others + "\n";
}

std::string man_page(const CLI::App& app, const CLI::App& command) {
  const std::string call = app.get_name() + " " + command.get_name();
  return head(page_name(app, command), command.get_description()) + synopsis(call, command) + "\n" +
         options_section(command) + examples_section(command) +
         fmt::format(".SH SEE ALSO\n.BR {} (1)\n", roff(app.get_name()));
}

}  // namespace assay::cli
