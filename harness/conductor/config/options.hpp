// The one table of axes and settings: the command line, its help, the config file and the report's JSON are
// made of it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/error.hpp"

namespace assay {

enum class OptionScope {
  axis,  // multiplied out: a list of values makes as many cells
  cell,  // how a cell is measured: one value, may differ between the cells of a config
  run,   // one value (or list) for the whole run; not allowed within "cells"
};

enum class OptionType { text, integer, number, flag };

// One row. The option is --<name>, the config key is <name>.
struct Option {
  std::string_view name;
  OptionScope scope = OptionScope::cell;
  OptionType type = OptionType::text;
  std::string_view placeholder;    // in the help: "N", "NAME,…"
  std::string_view default_value;  // empty: what `help` says
  std::string_view help;           // what, and why one would change it
  double least = 0;                // of numbers
  double most = 1e15;
  std::span<const std::string_view> choices = {};  // of text; empty: anything
  bool repeatable = false;                         // run: given several times, values are not split at commas
  bool variant = false;  // axis: part of a cell's identity only where it differs from the workload's own

  bool list() const { return scope == OptionScope::axis || repeatable; }
};

std::span<const Option> options();
// nullptr when there is none.
const Option* find_option(std::string_view name);
// Throws ConfigError naming the nearest known one; `where` leads the text ("quickstart.json: $.cells[0]").
const Option& require_option(std::string_view name, std::string_view where);

// Values as they were given, by option name. Absent: the default.
using OptionValues = std::map<std::string, std::vector<std::string>, std::less<>>;

// The parts of `text` between one `at` and the next; one part where there is none.
std::vector<std::string> split(std::string_view text, char at);
// What --filter asks: whether `id` holds one of the texts between the commas of `filter`. An empty filter
// wants all.
bool is_wanted(std::string_view id, std::string_view filter);
// Splits at commas where the option is an axis, checks each value and stores them in place of earlier ones (a
// repeatable option adds). Throws ConfigError led by `where`.
void set_option(OptionValues& values, const Option& option, std::string_view text, std::string_view where);
// Throws ConfigError when `value` is not of the option's type, range or choices.
void check_value(const Option& option, std::string_view value, std::string_view where);

// The last value given, or the default; an empty text when there is neither.
std::string text_of(const OptionValues& values, std::string_view name);
std::int64_t integer_of(const OptionValues& values, std::string_view name);
double number_of(const OptionValues& values, std::string_view name);
bool flag_of(const OptionValues& values, std::string_view name);
std::vector<std::string> list_of(const OptionValues& values, std::string_view name);

}  // namespace assay
