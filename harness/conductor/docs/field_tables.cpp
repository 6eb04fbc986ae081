#include "harness/conductor/docs/field_tables.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/core/text.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

constexpr std::size_t line_width = 100;

std::string word_of(const Json& value) {
  return fmt::format("`{}`", value.is_string() ? value.get<std::string>() : value.dump());
}

bool is_one_of(const Json& value, const Json& list) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// One sentence per line.
std::string sentences(std::string_view text) {
  std::string lines;
  std::size_t begin = 0;
  for (std::size_t i = 0; i + 2 < text.size(); ++i) {
    if (text[i] != '.' || text[i + 1] != ' ' || text[i + 2] < 'A' || text[i + 2] > 'Z') continue;
    lines += wrapped(text.substr(begin, i + 1 - begin), line_width) + "\n";
    begin = i + 2;
  }
  return lines + wrapped(text.substr(begin), line_width) + "\n";
}

class Tables {
 public:
  explicit Tables(const Json& definitions) : definitions_(definitions) {}

  std::string write(const std::vector<std::string>& names, std::size_t level) {
    for (const std::string& name : names) link(name, definitions_.at(name));
    std::string page;
    for (std::size_t i = 0; i < order_.size(); ++i) {  // a table adds the objects that it refers to
      const std::string name = order_[i];
      const Json& object = *objects_.at(name);
      page += fmt::format("{}{} {}\n\n{}", i == 0 ? "" : "\n", std::string(level, '#'), name,
                          sentences(object.at("description").get<std::string>()));
      page += table(object);
    }
    return page;
  }

 private:
  // To the object's heading, which it then gets.
  std::string link(const std::string& name, const Json& object) {
    if (objects_.emplace(name, &object).second) order_.push_back(name);
    return fmt::format("[{0}](#{0})", name);
  }

  // `key` names an object that has no name of its own.
  std::string type_of(const Json& field, const std::string& key) {
    if (field.contains("allOf")) return type_of(field["allOf"][0], key);
    if (field.contains("$ref")) {
      const std::string target = field["$ref"].get<std::string>();
      const std::string name = target.substr(target.rfind('/') + 1);
      return link(name, definitions_.at(name));
    }
    if (field.contains("const")) return word_of(field["const"]);
    if (field.contains("enum")) {
      std::vector<std::string> words;
      for (const Json& word : field["enum"]) words.push_back(word_of(word));
      return fmt::format("{}", fmt::join(words, ", "));
    }
    if (field.contains("anyOf")) {
      const Json& first = field["anyOf"][0];
      if (first.contains("items") && is_one_of(first["items"], field["anyOf"]))  // a column
        return type_of(first["items"], key);
      const bool or_null = is_one_of(Json::object({{"type", "null"}}), field["anyOf"]);
      return type_of(first, key) + (or_null ? " or null" : "");
    }
    const Json type = field.value("type", Json("anything"));
    const auto kinds = type.is_array() ? type.get<std::vector<std::string>>()
                                       : std::vector<std::string>{type.get<std::string>()};
    const auto is = [&](const char* kind) { return std::ranges::find(kinds, kind) != kinds.end(); };
    if (is("array")) {
      static const Json anything = Json::object();
      const Json& items = field.contains("items") ? field["items"] : anything;
      return "list of " + type_of(items, key) + (is("null") ? " or null" : "");
    }
    if (is("object") && field.contains("additionalProperties") && field["additionalProperties"].is_object())
      return "object of " + type_of(field["additionalProperties"], key);
    if (is("object") && field.contains("properties")) return link(key, field);
    return fmt::format("{}", fmt::join(kinds, " or ")) + range_of(field);
  }

  static std::string range_of(const Json& field) {
    const bool low = field.contains("minimum"), high = field.contains("maximum");
    if (low && high) return fmt::format(", {} to {}", field["minimum"].dump(), field["maximum"].dump());
    if (low) return fmt::format(", at least {}", field["minimum"].dump());
    return high ? fmt::format(", at most {}", field["maximum"].dump()) : "";
  }

  std::string table(const Json& object) {
    const Json& properties = object.at("properties");
    if (properties.empty()) return {};
    // Either all columns are present, or none.
    const Json required = object.contains("anyOf") ? object["anyOf"][1].at("required")
                                                   : object.value("required", Json::array());
    std::string rows = "\n| field | type | description |\n|---|---|---|\n";
    for (const auto& [name, field] : properties.items())
      rows += fmt::format("| `{}` | {} | {}{} |\n", name, type_of(field, name),
                          field.at("description").get<std::string>(),
                          is_one_of(Json(name), required) ? "" : " (may be absent)");
    return rows;
  }

  const Json& definitions_;
  std::map<std::string, const Json*> objects_;
  std::vector<std::string> order_;
};

}  // namespace

std::string field_tables(const Json& definitions, const std::vector<std::string>& names, std::size_t level) {
  return Tables(definitions).write(names, level);
}

}  // namespace assay
