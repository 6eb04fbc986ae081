// A named value that a user sets: the option --<name> of a command, the key <name> of a config.
#pragma once

#include <span>
#include <string_view>

namespace assay {

enum class OptionScope {
  axis,  // multiplied out: each value of a list makes its own cells
  cell,  // how a cell is measured: one value, may differ between the cells of a config
  run,   // one value (or list) for the whole run; not allowed within "cells"
};

enum class OptionType { text, integer, number, flag };

struct Option {
  std::string_view name;
  OptionScope scope = OptionScope::cell;
  OptionType type = OptionType::text;
  std::string_view placeholder = {};    // in the help: "N", "NAME,…"
  std::string_view default_value = {};  // empty: see `help`
  std::string_view help = {};           // what it is, and why to change it
  double min = 0;                       // for numbers
  double max = 1e15;
  std::span<const std::string_view> choices = {};  // for text; empty: anything
  bool repeatable = false;  // run: may be given several times; values are not split at commas

  bool list() const { return scope == OptionScope::axis || repeatable; }
};

}  // namespace assay
