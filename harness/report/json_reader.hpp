// Takes a JSON document apart field by field and says by its path what is missing or of another type.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/report/strict_json.hpp"

namespace assay {

// Borrows the document.
class JsonReader {
 public:
  JsonReader(const nlohmann::json& json, std::string path) : json_(json), path_(std::move(path)) {}

  const nlohmann::json& json() const { return json_; }
  [[noreturn]] void fail(const std::string& what) const { throw JsonError(path_ + ": " + what); }

  JsonReader field(const char* key) const {
    if (!json_.is_object()) fail(fmt::format("should be an object, is {}", json_.type_name()));
    const auto found = json_.find(key);
    if (found == json_.end()) fail(fmt::format("the field \"{}\" is missing", key));
    return {*found, path_ + "/" + key};
  }
  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }

  void read(const char* key, std::string& out) const { out = field(key).text(); }
  void read(const char* key, bool& out) const {
    const JsonReader value = field(key);
    if (!value.json_.is_boolean()) value.mistyped("true or false");
    out = value.json_.get<bool>();
  }
  template <std::integral T>
  requires(!std::same_as<T, bool>) void read(const char* key, T& out) const { out = field(key).integer<T>(); }
  // null reads as what the "not_finite" beside it says, and is refused without one.
  void read(const char* key, double& out) const {
    const JsonReader value = field(key);
    out = value.json_.is_null() ? not_finite(key) : value.number();
  }
  void read(const char* key, std::optional<double>& out) const {
    const JsonReader value = field(key);
    out.reset();
    if (!value.json_.is_null())
      out = value.number();
    else if (noted(key))
      out = not_finite(key);
  }
  void read(const char* key, std::optional<std::string>& out) const {
    const JsonReader value = field(key);
    out = value.json_.is_null() ? std::nullopt : std::optional(value.text());
  }
  template <typename T>
  void read(const char* key, std::vector<T>& out) const {
    out.clear();
    field(key).each([&](const JsonReader& item) {
      if constexpr (std::same_as<T, std::string>)
        out.push_back(item.text());
      else
        out.push_back(item.integer<T>());
    });
  }
  template <typename T>
  void read(const char* key, std::map<std::string, T>& out) const {
    out.clear();
    field(key).each_member([&](const std::string& name, const JsonReader& item) {
      if constexpr (std::same_as<T, std::string>)
        out[name] = item.text();
      else
        out[name] = item.integer<T>();
    });
  }
  void read_optional(const char* key, std::string& out) const {
    if (has(key))
      read(key, out);
    else
      out.clear();
  }

  template <typename F>
  void each(F use) const {
    if (!json_.is_array()) mistyped("a list");
    std::size_t index = 0;
    for (const auto& item : json_) use(JsonReader(item, path_ + "/" + std::to_string(index++)));
  }
  template <typename F>
  void each_member(F use) const {
    if (!json_.is_object()) mistyped("an object");
    for (const auto& [name, item] : json_.items())
      use(name, JsonReader(item, path_ + "/" + name.substr(0, 80)));
  }

  const std::string& text() const {
    if (!json_.is_string()) mistyped("text");
    return json_.get_ref<const std::string&>();
  }

 private:
  [[noreturn]] void mistyped(const char* expected) const {
    fail(fmt::format("should be {}, is {}", expected, json_.type_name()));
  }
  double number() const {
    if (!json_.is_number()) mistyped("a number");
    return json_.get<double>();
  }
  template <typename T>
  T integer() const {
    if (!json_.is_number_integer()) mistyped("an integer");
    const bool fits = json_.is_number_unsigned() ? std::in_range<T>(json_.get<std::uint64_t>())
                                                 : std::in_range<T>(json_.get<std::int64_t>());
    if (!fits) fail(fmt::format("{} is out of range", json_.dump()));
    return json_.get<T>();
  }
  bool noted(const char* key) const {
    const auto notes = json_.find("not_finite");
    return notes != json_.end() && notes->is_object() && notes->contains(key);
  }
  double not_finite(const char* key) const {
    if (noted(key)) {
      const auto& note = json_["not_finite"][key];
      if (note == "nan") return std::numeric_limits<double>::quiet_NaN();
      if (note == "inf") return std::numeric_limits<double>::infinity();
      if (note == "-inf") return -std::numeric_limits<double>::infinity();
    }
    fail(fmt::format("the field \"{}\" is null, and no \"not_finite\" says why", key));
  }

  const nlohmann::json& json_;
  std::string path_;
};

}  // namespace assay
