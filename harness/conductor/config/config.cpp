#include "harness/conductor/config/config.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/strict_json.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

[[noreturn]] void fail(std::string_view where, const std::string& what) {
  throw ConfigError(fmt::format("{}: {}", where, what));
}

std::string require_text(const Json& json, std::string_view where) {
  if (!json.is_string()) fail(where, fmt::format("should be text, is {}", json.type_name()));
  return json.get<std::string>();
}

std::string scalar_text(const Json& json, const Option& option, std::string_view where) {
  if (json.is_string()) {
    const auto text = json.get<std::string>();
    if (option.scope == OptionScope::axis && text.find(',') != std::string::npos) {
      fail(where, fmt::format("got \"{}\": in a config write a list as [\"a\", \"b\"]", text));
    }
    return text;
  }
  if (json.is_number() || json.is_boolean()) return json.dump();
  fail(where, fmt::format("should be text, a number or true/false, is {}", json.type_name()));
}

void read_option(OptionValues& values, const Option& option, const Json& json, const std::string& where) {
  std::vector<std::string>& slot = values[std::string(option.name)];
  if (!json.is_array()) {
    slot = {scalar_text(json, option, where)};
  } else {
    if (!option.list()) fail(where, "takes one value, not a list");
    if (json.empty()) fail(where, "the list is empty");
    for (std::size_t i = 0; i < json.size(); ++i) {
      slot.push_back(scalar_text(json[i], option, fmt::format("{}[{}]", where, i)));
    }
  }
  for (const std::string& value : slot) check_value(option, value, where);
}

const Option& require_known(const std::string& key, std::initializer_list<const char*> others,
                            std::string_view where, bool run_options) {
  if (const Option* option = find_option(key)) {
    if (option->scope != OptionScope::run || run_options) return *option;
    fail(where, fmt::format("'{}' applies to the whole run: write it next to \"cells\", not inside", key));
  }
  std::vector<std::string> known(others.begin(), others.end());
  for (const Option& option : options()) {
    if (run_options || option.scope != OptionScope::run) known.emplace_back(option.name);
  }
  fail(where, fmt::format("unknown key '{}'{}", key, suggestion(key, known)));
}

// {"<axis>": value, ...}: one value for each axis.
OptionValues read_point(const Json& json, const std::string& where, bool settings) {
  if (!json.is_object()) fail(where, fmt::format("should be an object, is {}", json.type_name()));
  OptionValues values;
  for (const auto& [key, value] : json.items()) {
    const Option& option = require_known(key, {}, where, false);
    const std::string here = where + "." + key;
    if (!settings && option.scope != OptionScope::axis && key != "epochs" && key != "steps")
      fail(here, "is not an axis: only axes identify the other cell");
    if (value.is_array()) fail(here, "takes one value, not a list");
    read_option(values, option, value, here);
  }
  return values;
}

ConfigPublished read_published(const Json& json, const std::string& where) {
  if (!json.is_object()) fail(where, fmt::format("should be an object, is {}", json.type_name()));
  ConfigPublished read;
  Published& published = read.published;
  for (const auto& [key, value] : json.items()) {
    const std::string here = where + "." + key;
    if (key == "metric") {
      published.metric = require_text(value, here);
    } else if (key == "value") {
      if (!value.is_number()) fail(here, fmt::format("should be a number, is {}", value.type_name()));
      published.value = value.get<double>();
    } else if (key == "unit") {
      published.unit = require_text(value, here);
    } else if (key == "to") {
      read.to = read_point(value, here, false);
      if (read.to.empty()) fail(here, "is empty: name the axes in which the other cell differs");
    } else if (key == "source") {
      published.source = require_text(value, here);
    } else if (key == "statement") {
      published.statement = require_text(value, here);
    } else {
      fail(where, fmt::format("unknown key '{}'{}", key,
                              suggestion(key, {"metric", "value", "unit", "to", "source", "statement"})));
    }
  }
  if (published.metric.empty()) fail(where, "\"metric\" is missing");
  if (!published.value && published.statement.empty()) fail(where, "\"value\" or \"statement\" is missing");
  return read;
}

// An entry without its own source gets the source of the config.
void require_sources(RunConfig& config) {
  for (ConfigRow& row : config.rows) {
    for (ConfigPublished& entry : row.published) {
      if (entry.published.source.empty()) entry.published.source = config.source;
      if (entry.published.source.empty())
        fail(
            row.where + ".published",
            "\"source\" is missing: every published number needs a source; add it here or at the top of the config");
    }
  }
}

bool uses_backend(const RunConfig& config, const std::string& name) {
  const auto uses = [&](const OptionValues& values) {
    const auto found = values.find("backend");
    return found != values.end() &&
           std::find(found->second.begin(), found->second.end(), name) != found->second.end();
  };
  return uses(config.values) || std::any_of(config.rows.begin(), config.rows.end(),
                                            [&](const ConfigRow& row) { return uses(row.values); });
}

// A backend in "awaits" that no cell uses is probably misspelt.
void reject_unused(const RunConfig& config, const std::string& where) {
  for (const auto& [name, modes] : config.awaits) {
    if (!uses_backend(config, name))
      fail(where,
           fmt::format("no cell uses the backend '{}' that \"awaits\" names; fix the name or remove it",
                       name));
  }
}

std::map<std::string, std::vector<std::string>> read_awaits(const Json& json, const std::string& where) {
  if (!json.is_object()) fail(where, "should be an object: a list of modes for each backend");
  std::map<std::string, std::vector<std::string>> awaits;
  for (const auto& [name, modes] : json.items()) {
    const std::string here = where + "." + name;
    if (!modes.is_array() || modes.empty()) fail(here, "should be a list with at least one mode");
    for (const Json& mode : modes) awaits[name].push_back(require_text(mode, here));
  }
  return awaits;
}

ConfigRow read_row(const Json& json, const std::string& where) {
  if (!json.is_object()) fail(where, fmt::format("should be an object, is {}", json.type_name()));
  ConfigRow row;
  row.where = where;
  for (const auto& [key, value] : json.items()) {
    if (key == "published") {
      if (!value.is_array()) fail(where + ".published", "should be a list");
      for (std::size_t i = 0; i < value.size(); ++i) {
        row.published.push_back(read_published(value[i], fmt::format("{}.published[{}]", where, i)));
      }
    } else {
      read_option(row.values, require_known(key, {"published"}, where, false), value, where + "." + key);
    }
  }
  return row;
}

// `epochs` and `steps` are mutually exclusive: setting one clears an inherited value of the other.
void apply_overrides(OptionValues& values, const OptionValues& upper) {
  if (upper.contains("steps")) values.erase("epochs");
  if (upper.contains("epochs")) values.erase("steps");
  for (const auto& [name, value] : upper) values[name] = value;
}

bool changes_what_is_measured(std::string_view option) {
  // A published protocol leaves the user free to choose these.
  static const std::set<std::string_view> free{"backend", "mode", "device", "threads", "check", "distinct"};
  return require_option(option, "").scope != OptionScope::run && !free.contains(option);
}

void reject_contradiction(const OptionValues& values, std::string_view where) {
  if (values.contains("epochs") && values.contains("steps")) {
    fail(where, "got both epochs and steps: give only one of them");
  }
}

// A whole number is an integer, as a person writes it.
Json number_json(double value) {
  constexpr double max_exact = 1e15;
  if (value == std::floor(value) && std::abs(value) < max_exact) return static_cast<std::int64_t>(value);
  return value;
}

// `value` passed check_value(). Options take "010" and ".5", which are not JSON.
Json value_json(const Option& option, const std::string& value) {
  const OptionValues one{{std::string(option.name), {value}}};
  switch (option.type) {
    case OptionType::text:
      break;
    case OptionType::integer:
      return integer_of(one, option.name);
    case OptionType::number:
      return number_json(number_of(one, option.name));
    case OptionType::flag:
      return flag_of(one, option.name);
  }
  return value;
}

Json to_json(const OptionValues& values) {
  Json json = Json::object();
  for (const auto& [name, list] : values) {
    const Option& option = require_option(name, "");
    Json items = Json::array();
    for (const std::string& value : list) items.push_back(value_json(option, value));
    json[name] = items.size() == 1 && !option.repeatable ? items[0] : items;
  }
  return json;
}

}  // namespace

void RunConfig::override_with(const OptionValues& given) {
  reject_contradiction(given, "command line");
  by_command_line = by_command_line || !given.empty();
  for (const auto& [option, value] : given) {
    if (changes_what_is_measured(option)) overridden.push_back(option);
  }
  apply_overrides(values, given);
  for (const auto& [option, value] : given) when_quick.erase(option);
  if (given.contains("epochs") || given.contains("steps")) {
    when_quick.erase("epochs");
    when_quick.erase("steps");
  }
  for (ConfigRow& row : rows) {
    for (const auto& [option, value] : given) row.values.erase(option);
    if (given.contains("epochs") || given.contains("steps")) {
      row.values.erase("epochs");
      row.values.erase("steps");
    }
  }
  std::erase_if(awaits, [&](const auto& awaited) { return !uses_backend(*this, awaited.first); });
}

RunConfig config_from_json(const Json& json, std::string_view where) {
  const std::string root = fmt::format("{}: $", where);
  if (!json.is_object()) fail(root, fmt::format("should be an object, is {}", json.type_name()));
  RunConfig config;
  for (const auto& [key, value] : json.items()) {
    const std::string here = root + "." + key;
    if (key == "name") {
      config.name = require_text(value, here);
    } else if (key == "title") {
      config.title = require_text(value, here);
    } else if (key == "source") {
      config.source = require_text(value, here);
    } else if (key == "awaits") {
      config.awaits = read_awaits(value, here);
    } else if (key == "when-quick") {
      config.when_quick = read_point(value, here, true);
    } else if (key == "overridden") {
      if (!value.is_array()) fail(here, "should be a list");
      for (const Json& option : value) config.overridden.push_back(require_text(option, here));
      config.by_command_line = !config.overridden.empty();
    } else if (key == "cells") {
      if (!value.is_array() || value.empty()) fail(here, "should be a list with at least one cell");
      for (std::size_t i = 0; i < value.size(); ++i) {
        config.rows.push_back(read_row(value[i], fmt::format("{}[{}]", here, i)));
      }
    } else {
      read_option(
          config.values,
          require_known(key, {"name", "title", "source", "awaits", "when-quick", "cells"}, root, true), value,
          here);
    }
  }
  reject_contradiction(config.values, root);
  if (config.rows.empty()) config.rows.push_back({{}, {}, root});
  for (ConfigRow& row : config.rows) reject_contradiction(row.values, row.where);
  require_sources(config);
  reject_unused(config, root + ".awaits");
  return config;
}

RunConfig read_config(const std::filesystem::path& file) {
  Json json;
  try {
    json = read_strict_json(file, {std::size_t{1} << 22, 16});
  } catch (const JsonError& error) {
    throw ConfigError(error.what());
  }
  RunConfig config = config_from_json(json, file.filename().string());
  if (config.name.empty()) config.name = file.stem().string();
  return config;
}

RunConfig config_of(const OptionValues& given) {
  RunConfig config;
  reject_contradiction(given, "command line");
  config.values = given;
  config.rows.push_back({{}, {}, "command line"});
  return config;
}

OptionValues row_values(const RunConfig& config, const ConfigRow& row) {
  OptionValues values = config.values;
  apply_overrides(values, row.values);
  if (flag_of(config.values, "quick")) apply_overrides(values, config.when_quick);
  return values;
}

Json to_json(const RunConfig& config) {
  Json json = to_json(config.values);
  if (!config.name.empty()) json["name"] = config.name;
  if (!config.title.empty()) json["title"] = config.title;
  if (!config.source.empty()) json["source"] = config.source;
  if (!config.awaits.empty()) json["awaits"] = config.awaits;
  if (!config.when_quick.empty()) json["when-quick"] = to_json(config.when_quick);
  if (!config.overridden.empty()) json["overridden"] = config.overridden;
  json["cells"] = Json::array();
  for (const ConfigRow& row : config.rows) {
    Json cell = to_json(row.values);
    for (const auto& [published, to] : row.published) {
      Json item{{"metric", published.metric}, {"source", published.source}};
      if (published.value) item["value"] = *published.value;
      if (!published.unit.empty()) item["unit"] = published.unit;
      if (!to.empty()) item["to"] = to_json(to);
      if (!published.statement.empty()) item["statement"] = published.statement;
      cell["published"].push_back(std::move(item));
    }
    json["cells"].push_back(std::move(cell));
  }
  return json;
}

}  // namespace assay
