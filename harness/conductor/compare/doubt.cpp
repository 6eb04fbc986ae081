#include "harness/conductor/compare/doubt.hpp"

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/compare/cell_decision.hpp"
#include "harness/conductor/print/table.hpp"
#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/report/environment_difference.hpp"
#include "harness/report/fork_time.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;
// All values that the forks had, by name.
using Observed = std::map<std::string, std::set<std::string>>;

constexpr const char* unset = "not set";
constexpr std::string_view of_the_check = "check";  // name of the settings of the check

const char* side_name(const Side& side, const Side& base) {
  return &side == &base ? "the baseline" : "the new report";
}

std::string of_quick(const Side& base, const Side& current) {
  const auto quick = [](const Side& side) { return side.report.run.quick.value_or(false); };
  if (!quick(base) && !quick(current)) return {};
  return fmt::format("{} was made with --quick, which is not a measurement; overlook it with --allow quick",
                     side_name(quick(base) ? base : current, base));
}

// Compares the settings of timing and loading, but not those of the check.
std::string of_settings(const Side& base, const Side& current) {
  const Json &was = base.cell.settings, &is = current.cell.settings;
  if (!was.is_object() || !is.is_object()) return {};
  for (const auto& [name, value] : was.items()) {
    const auto other = is.find(name);
    if (name == of_the_check || other == is.end() || *other == value) continue;
    return fmt::format("'{}' was {} and is {}; overlook it with --allow settings", name,
                       one_line(value.dump(), 100), one_line(other->dump(), 100));
  }
  return {};
}

Observed settings_of(const CellReport& cell) {
  Observed found;
  for (const Fork* fork : counted_forks(cell)) {
    for (const auto& [name, value] : fork->settings) found[name].insert(value);
    if (!fork->data_digest.empty())
      found["the checksum of the data set " + cell.axes.dataset].insert(fork->data_digest);
  }
  return found;
}

// The environment variables of the worker that affect speed: those of the fork, else those of the session
// that started it. nullopt if the report does not have its sessions.
std::optional<Observed> variables_of(const Side& side) {
  const std::vector<SessionRecord>& sessions = side.report.run.sessions;
  if (sessions.empty()) return std::nullopt;
  Observed found;
  for (const Fork* fork : counted_forks(side.cell)) {
    std::map<std::string, std::string> all;
    const auto session = static_cast<std::size_t>(fork->session.value_or(0));
    if (session < sessions.size()) all = sessions[session].variables;
    for (const auto& [name, value] : fork->variables) all[name] = value;
    for (const auto& [name, value] : all) found[name].insert(value);
  }
  return found;
}

std::string first_difference(const Observed& was, const Observed& is, bool only_shared) {
  const auto difference = [](const std::string& name, const std::set<std::string>& a,
                             const std::set<std::string>& b) {
    return fmt::format("{} was {} and is {}; overlook it with --allow settings", name,
                       one_line(fmt::format("{}", fmt::join(a, " or ")), 100),
                       one_line(fmt::format("{}", fmt::join(b, " or ")), 100));
  };
  for (const auto& [name, values] : was) {
    const auto other = is.find(name);
    if (other == is.end() && only_shared) continue;
    const std::set<std::string> now = other == is.end() ? std::set<std::string>{unset} : other->second;
    if (now != values) return difference(name, values, now);
  }
  for (const auto& [name, values] : is)
    if (!only_shared && !was.contains(name)) return difference(name, {unset}, values);
  return {};
}

std::string of_what_held(const Side& base, const Side& current) {
  if (std::string found = first_difference(settings_of(base.cell), settings_of(current.cell), true);
      !found.empty())
    return found;
  const auto was = variables_of(base), is = variables_of(current);
  return was && is ? first_difference(*was, *is, false) : std::string();
}

std::string of_flags(const Side& base, const Side& current) {
  for (const Side* side : {&base, &current})
    if (!side->cell.flags.empty())
      return fmt::format("{} has the flag {}; overlook it with --allow flags", side_name(*side, base),
                         fmt::join(side->cell.flags, ", "));
  return {};
}

std::string of_profile(const Side& base, const Side& current) {
  for (const Side* side : {&base, &current})
    if (side->report.run.settings.profile.value_or(false))
      return fmt::format(
          "{} was made with --profile, which slows its forks; overlook it with --allow profiled",
          side_name(*side, base));
  return {};
}

std::string of_check(const Side& base, const Side& current) {
  for (const Side* side : {&base, &current})
    if (!side->cell.equivalence.checked)
      return fmt::format(
          "{} was not checked against the oracle, so it may be fast because it is wrong; overlook it with --allow unchecked",
          side_name(*side, base));
  return {};
}

std::string of_seeds(const Side& base, const Side& current) {
  const std::string metric = accuracy_of_other_seeds(base.cell, current.cell);
  if (metric.empty()) return {};
  return fmt::format(
      "the sides share no seed, so {} is of other trainings; measure with the --seed of the baseline, or overlook it with "
      "--allow seeds",
      metric);
}

std::string of_metrics(const Side& base, const Side& current) {
  const std::string what = metric_of_one_side(base.cell, current.cell);
  return what.empty() ? what : what + ", so it cannot be compared; overlook it with --allow metrics";
}

Overlooked word_for(DifferenceKind kind) {
  switch (kind) {
    case DifferenceKind::processor:
      return Overlooked::processor;
    case DifferenceKind::speed:
      return Overlooked::speed;
    case DifferenceKind::cpus:
      return Overlooked::cpus;
    case DifferenceKind::gpu:
      return Overlooked::gpu;
    case DifferenceKind::driver:
      return Overlooked::driver;
    case DifferenceKind::libraries:
      return Overlooked::libraries;
    case DifferenceKind::fork_style:
      return Overlooked::settings;
    case DifferenceKind::system:
      return Overlooked::environment;
  }
  return Overlooked::environment;
}

}  // namespace

Allowed Allowed::parse(const std::vector<std::string>& given) {
  constexpr std::string_view of_libraries = "libraries:";
  Allowed allowed;
  for (const std::string& word : given) {
    if (word.starts_with(of_libraries) && word.size() > of_libraries.size()) {
      allowed.libraries_.insert(word.substr(of_libraries.size()));
      continue;
    }
    const auto what = from_word<Overlooked>(word);
    if (!what) {
      const std::vector<std::string> known(word_texts<Overlooked>.begin(), word_texts<Overlooked>.end());
      throw ConfigError(fmt::format("[compare] --allow got '{}'{}: must be one of {}, or libraries:NAME",
                                    word, suggestion(word, known), list_of_words<Overlooked>()));
    }
    allowed.whole_.insert(*what);
  }
  return allowed;
}

bool Allowed::covers(const EnvironmentDifference& one) const {
  if (!one.hard || contains(Overlooked::environment) || contains(word_for(one.kind))) return true;
  return one.kind == DifferenceKind::libraries &&
         (libraries_.contains(one.backend) || libraries_.contains(one.library));
}

void Allowed::require_known(const std::vector<const Report*>& reports) const {
  if (libraries_.empty()) return;
  std::set<std::string> known;
  for (const Report* report : reports)
    for (const CellReport& cell : report->cells) {
      known.insert(cell.axes.backend);
      for (const protocol::Library& library : cell.libraries) known.insert(library.name);
    }
  for (const std::string& name : libraries_)
    if (!known.contains(name))
      throw ConfigError(fmt::format(
          "[compare] --allow libraries:{}: no cell of the reports has a backend or library of that name{}",
          name, suggestion(name, std::vector<std::string>(known.begin(), known.end()))));
}

std::string allowing(const EnvironmentDifference& one) {
  std::string word(to_string(word_for(one.kind)));
  if (one.kind == DifferenceKind::libraries) word += ":" + one.backend;
  return word;
}

std::map<std::string, std::string> measured_as(const Side& side) {
  std::map<std::string, std::string> found;
  if (side.cell.settings.is_object())
    for (const auto& [name, value] : side.cell.settings.items())
      if (name != of_the_check) found[name] = value.dump();
  for (const auto& [name, values] : settings_of(side.cell))
    found["observed " + name] = fmt::format("{}", fmt::join(values, " or "));
  if (const auto variables = variables_of(side)) {
    std::vector<std::string> all;
    for (const auto& [name, values] : *variables)
      all.push_back(fmt::format("{}={}", name, fmt::join(values, " or ")));
    found["environment variables"] = fmt::format("{}", fmt::join(all, " "));
  }
  found["fork style"] = side.report.run.settings.fork_style.value_or("fresh");
  return found;
}

std::string doubt_about(const Side& base, const Side& current, const Allowed& overlooked) {
  std::string doubt;
  const auto ask = [&](Overlooked what, auto question) {
    if (doubt.empty() && !overlooked.contains(what)) doubt = question(base, current);
  };
  ask(Overlooked::quick, of_quick);
  ask(Overlooked::settings, of_settings);
  ask(Overlooked::settings, of_what_held);
  ask(Overlooked::profiled, of_profile);
  ask(Overlooked::flags, of_flags);
  ask(Overlooked::unchecked, of_check);
  ask(Overlooked::seeds, of_seeds);
  ask(Overlooked::metrics, of_metrics);
  return doubt;
}

}  // namespace assay
