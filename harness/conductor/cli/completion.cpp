#include "harness/conductor/cli/completion.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "harness/conductor/backends/backends.hpp"
#include "harness/conductor/backends/frameworks.hpp"
#include "harness/conductor/config/config.hpp"
#include "harness/conductor/config/options.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/core/text.hpp"
#include "workloads/workload_registry.hpp"

namespace assay::cli {
namespace {

using Candidates = std::vector<std::string>;

Candidates workload_names() {
  Candidates found;
  const WorkloadRegistry workloads;
  for (const Workload& workload : workloads.networks()) found.push_back(workload.name);
  for (const OpWorkload& op : workloads.ops()) found.push_back(op.name);
  return found;
}

Candidates backend_names() {
  Candidates found;
  const BackendRegistry registry = find_backends();
  for (const BackendDescription& backend : registry.backends) found.push_back(backend.name);
  return found;
}

Candidates framework_names() {
  Candidates found;
  for (const Framework& framework : installable_frameworks(find_backends())) found.push_back(framework.name);
  found.push_back("all");
  return found;
}

Candidates mode_names() {
  Candidates found;
  const BackendRegistry registry = find_backends();
  for (const BackendDescription& backend : registry.backends)
    for (const std::string& mode : backend.modes)
      if (!contains(found, mode)) found.push_back(mode);
  return found;
}

Candidates config_names() {
  Candidates found;
  for (const auto& file : all_configs()) found.push_back(file.stem().string());
  return found;
}

Candidates dataset_names() {
  Candidates found;
  for (const Dataset& dataset : datasets()) found.push_back(dataset.name);
  return found;
}

// Keyed by the name of an option or of a positional argument.
using Source = Candidates (*)();
const std::map<std::string, Source, std::less<>> sources = {
    {"CONFIG", config_names},       {"WORKLOAD", workload_names}, {"workload", workload_names},
    {"backend", backend_names},     {"mode", mode_names},         {"dataset", dataset_names},
    {"FRAMEWORK", framework_names},
};

std::string name_of(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name(true) : option.get_lnames().front();
}

Candidates values_of(const CLI::Option& option, const Choices& choices) {
  const std::string name = name_of(option);
  if (const auto source = sources.find(name); source != sources.end()) return source->second();
  if (const auto own = choices.find(&option); own != choices.end() && !own->second.empty())
    return own->second;
  const Option* row = find_option(name);
  if (row && row->type == OptionType::flag) return {"true", "false"};
  return row ? Candidates(row->choices.begin(), row->choices.end()) : Candidates{};
}

// The candidates that begin with `word`, each with the prefix `lead`, which is part of the same word in the
// shell.
Candidates beginning_with(std::string_view word, std::string_view lead, Candidates all) {
  std::erase_if(all, [&](const std::string& one) { return !one.starts_with(word); });
  for (std::string& one : all) one.insert(0, lead);
  return all;
}

Candidates complete_value(const CLI::Option& option, const Choices& choices, std::string_view word,
                          std::string lead = {}) {
  const Option* row = find_option(name_of(option));
  const bool is_list = option.get_delimiter() == ',' || (row && row->scope == OptionScope::axis);
  // In a list only the last value is completed.
  if (const std::size_t comma = word.rfind(','); is_list && comma != word.npos) {
    lead += word.substr(0, comma + 1);
    word.remove_prefix(comma + 1);
  }
  return beginning_with(word, lead, values_of(option, choices));
}

Candidates option_names(const CLI::App& command) {
  Candidates found;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) found.push_back("--" + name);
  return found;
}

Candidates command_names(const CLI::App& app) {
  Candidates found;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    found.push_back(command->get_name());
  return found;
}

bool takes_value(const CLI::Option* option) { return option && option->get_items_expected_max() > 0; }

// The positional argument at that place; the last one may be repeated.
const CLI::Option* positional(const CLI::App& command, std::size_t place) {
  const auto all = command.get_options([](const CLI::Option* option) { return option->get_positional(); });
  if (place < all.size()) return all[place];
  return !all.empty() && all.back()->get_items_expected_max() > 1 ? all.back() : nullptr;
}

// bash splits --task=train into three words.
std::vector<std::string> without_equal_signs(std::vector<std::string> words) {
  if (!words.empty() && words.back() == "=") words.back().clear();
  std::erase(words, "=");
  return words;
}

constexpr std::string_view bash_script = R"(# Completion of assay for bash. Made by: assay completion bash
_assay() {
  local candidate
  COMPREPLY=()
  while read -r candidate; do
    COMPREPLY+=("$candidate")
  done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _assay assay
)";

}  // namespace

std::vector<std::string> candidates(const CLI::App& app, const Choices& choices,
                                    std::vector<std::string> words) {
  words = without_equal_signs(std::move(words));
  if (words.empty()) return command_names(app);
  const std::string word = words.back();
  words.pop_back();

  const CLI::App* command = &app;
  const CLI::Option* awaiting = nullptr;  // an option whose value comes next
  std::size_t place = 0;                  // number of earlier positional arguments
  for (const std::string& past : words) {
    if (awaiting) {
      awaiting = nullptr;
    } else if (past.starts_with("-")) {
      const CLI::Option* option = command->get_option_no_throw(past);
      if (takes_value(option)) awaiting = option;
    } else if (command == &app) {
      const auto named = app.get_subcommands([&](const CLI::App* one) { return one->get_name() == past; });
      if (named.empty()) return {};
      command = named.front();
    } else {
      ++place;
    }
  }

  if (awaiting) return complete_value(*awaiting, choices, word);
  if (const std::size_t equal = word.find('='); word.starts_with("--") && equal != word.npos) {
    const CLI::Option* option = command->get_option_no_throw(word.substr(0, equal));
    if (!option) return {};
    return complete_value(*option, choices, std::string_view(word).substr(equal + 1),
                          word.substr(0, equal + 1));
  }
  if (word.starts_with("-")) return beginning_with(word, {}, option_names(*command));
  if (command == &app) return beginning_with(word, {}, command_names(app));
  if (const CLI::Option* argument = positional(*command, place))
    return complete_value(*argument, choices, word);
  return word.empty() ? option_names(*command) : Candidates{};
}

std::string_view bash_completion() { return bash_script; }

}  // namespace assay::cli
