// A run as the user describes it: a config file, axes by option, or both.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/conductor/config/options.hpp"
#include "harness/report/report.hpp"

namespace assay {

// A published result for the cells of a row. A ratio is relative to the cell that differs from this one in
// `to`: {"backend": ["tensorflow"], "layout": ["channels_last"]}.
struct ConfigPublished {
  Published published;
  OptionValues to;
};

// A row of "cells": its axes and settings override those of the run; lists are multiplied out.
struct ConfigRow {
  OptionValues values;
  std::vector<ConfigPublished> published;
  std::string where;  // "quickstart.json: $.cells[0]", for errors
};

// {"name", "title", "source", <any option>, "awaits": {"<backend>": ["<mode>", ...]},
//  "when-quick": {<axes and cell settings>},
//  "cells": [{<axes and cell settings>,
//             "published": [{"metric", "value", "unit", "to": {<axes>}, "source", "statement"}]}]}
//
// If a backend has no folder, its cells are `unavailable` if "awaits" names the backend, and an error
// otherwise. So a name that is misspelt in one of the two places is reported.
struct RunConfig {
  std::string name;    // "quickstart"; empty when all came by option
  std::string title;   // one sentence
  std::string source;  // citation of the reproduced work
  OptionValues values;
  std::vector<ConfigRow> rows;                             // never empty
  std::map<std::string, std::vector<std::string>> awaits;  // backend -> modes
  OptionValues when_quick;              // overrides of every row with --quick, such as a smaller batch
  std::vector<std::string> overridden;  // axes and settings that the command line changed, for display
  bool by_command_line = false;         // it changed any option, so that rows may be alike

  // The command line takes precedence over the file in every row.
  void override_with(const OptionValues& given);
};

// Both throw ConfigError with the JSON path of the error and the nearest known key.
RunConfig config_from_json(const nlohmann::json& json, std::string_view where);
RunConfig read_config(const std::filesystem::path& file);
// A run that only the given options describe.
RunConfig config_of(const OptionValues& given);

// The values of a row: its own override those of the run; with --quick, `when-quick` overrides both.
OptionValues row_values(const RunConfig& config, const ConfigRow& row);

// Reads back as the same config.
nlohmann::json to_json(const RunConfig& config);

// The file that `name` means: a path to a file, or <folder>/NAME.json in $ASSAY_CONFIGS, `<exe
// folder>/../configs`, the source tree's configs next to a build folder, or share/assay/configs of an
// installation. Throws ConfigError with the nearest known name.
std::filesystem::path find_config(std::string_view name);
// All configs in those folders.
std::vector<std::filesystem::path> all_configs();

}  // namespace assay
