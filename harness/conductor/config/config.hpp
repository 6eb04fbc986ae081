// A run as a person asks for it: a config file, axes by option, or both.
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

// What was published about the cells of a row. A ratio is to the cell that differs from this one in `to`:
// {"backend": ["tensorflow"], "layout": ["channels_last"]}.
struct ConfigPublished {
  Published published;
  OptionValues to;
};

// A row of "cells": its own axes and settings over those of the run, multiplied out where they are lists.
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
// The cells of a backend without a folder are `unavailable` where the config awaits it, and an error where it
// does not: a name that is misspelt in one of the two places is seen.
struct RunConfig {
  std::string name;    // "quickstart"; empty when all came by option
  std::string title;   // a sentence
  std::string source;  // citation of what is reproduced
  OptionValues values;
  std::vector<ConfigRow> rows;                             // never empty
  std::map<std::string, std::vector<std::string>> awaits;  // backend -> modes
  OptionValues when_quick;              // what --quick lays over every row, such as a smaller batch
  std::vector<std::string> overridden;  // axes and settings that the command line changed, for the reader

  // What the command line said wins over the file, everywhere.
  void override_with(const OptionValues& given);
};

// Both throw ConfigError with the JSON path of what is wrong and the nearest known key.
RunConfig config_from_json(const nlohmann::json& json, std::string_view where);
RunConfig read_config(const std::filesystem::path& file);
// A run of options alone.
RunConfig config_of(const OptionValues& given);

// What holds for a row: its own values over those of the run, and under --quick what the config says for it.
OptionValues row_values(const RunConfig& config, const ConfigRow& row);

// Reads back as the same config.
nlohmann::json to_json(const RunConfig& config);

// The file that NAME means: a path to a file, or <folder>/NAME.json in $ASSAY_CONFIGS, `<exe
// folder>/../configs`, the source tree's configs beside a build folder, or share/assay/configs of an
// installation. Throws ConfigError listing the known names.
std::filesystem::path find_config(std::string_view name);
// Every config in those places.
std::vector<std::filesystem::path> all_configs();

}  // namespace assay
