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

#include "harness/report/strict_document.hpp"

namespace assay {

// Borrows the document. A part of it borrows the reader that it came from, for the path alone: reports have
// millions of fields, and few of them are ever named.
class JsonReader {
 public:
  explicit JsonReader(const StrictDocument& document)
      : value_(document.root()), root_(document.where() + ": ") {}

  nlohmann::json json() const { return to_json(value_); }
  bool is_object() const { return value_.is_object(); }
  [[noreturn]] void fail(const std::string& what) const { throw JsonError(path() + ": " + what); }

  JsonReader field(const char* key) const {
    const auto found = find(key);
    if (!found) {
      if (!value_.is_object()) fail(fmt::format("should be an object, is {}", type_name()));
      fail(fmt::format("the field \"{}\" is missing", key));
    }
    return {*found, this, key};
  }
  bool has(const char* key) const { return find(key).has_value(); }

  void read(const char* key, std::string& out) const { out = field(key).text(); }
  void read(const char* key, bool& out) const {
    const JsonReader value = field(key);
    if (value.value_.get(out) != simdjson::SUCCESS) value.mistyped("true or false");
  }
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  void read(const char* key, T& out) const {
    out = field(key).integer<T>();
  }
  // null reads as what the "not_finite" beside it says, and is refused without one.
  void read(const char* key, double& out) const {
    const JsonReader value = field(key);
    out = value.value_.is_null() ? not_finite(key) : value.number();
  }
  void read(const char* key, std::optional<double>& out) const {
    const JsonReader value = field(key);
    out.reset();
    if (!value.value_.is_null())
      out = value.number();
    else if (noted(key))
      out = not_finite(key);
  }
  template <std::integral T>
  void read(const char* key, std::optional<T>& out) const {
    const JsonReader value = field(key);
    out = value.value_.is_null() ? std::nullopt : std::optional(value.integer<T>());
  }
  void read(const char* key, std::optional<std::string>& out) const {
    const JsonReader value = field(key);
    out = value.value_.is_null() ? std::nullopt : std::optional(std::string(value.text()));
  }
  template <typename T>
  void read(const char* key, std::vector<T>& out) const {
    out.clear();
    field(key).each([&](const JsonReader& item) {
      if constexpr (std::same_as<T, std::string>)
        out.emplace_back(item.text());
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
    if (!value_.is_array()) mistyped("a list");
    std::size_t index = 0;
    for (const simdjson::dom::element item : simdjson::dom::array(value_))
      use(JsonReader(item, this, {}, index++));
  }
  std::size_t count() const { return value_.is_array() ? simdjson::dom::array(value_).size() : 0; }
  template <typename F>
  void each_member(F use) const {
    if (!value_.is_object()) mistyped("an object");
    for (const simdjson::dom::key_value_pair member : simdjson::dom::object(value_))
      use(std::string(member.key), JsonReader(member.value, this, member.key));
  }

  std::string_view text() const {
    std::string_view out;
    if (value_.get(out) != simdjson::SUCCESS) mistyped("text");
    return out;
  }
  double number() const {
    double out = 0;
    if (value_.get(out) != simdjson::SUCCESS) mistyped("a number");
    return out;
  }

 private:
  JsonReader(simdjson::dom::element value, const JsonReader* parent, std::string_view key,
             std::size_t index = 0)
      : value_(value), parent_(parent), key_(key), index_(index) {}

  std::optional<simdjson::dom::element> find(std::string_view key) const {
    if (!value_.is_object()) return std::nullopt;
    for (const simdjson::dom::key_value_pair member : simdjson::dom::object(value_))
      if (member.key == key) return member.value;
    return std::nullopt;
  }
  std::string path() const {
    if (!parent_) return root_;
    return parent_->path() + "/" + (key_.data() ? std::string(key_.substr(0, 80)) : std::to_string(index_));
  }
  const char* type_name() const {
    switch (value_.type()) {
      case simdjson::dom::element_type::ARRAY:
        return "array";
      case simdjson::dom::element_type::OBJECT:
        return "object";
      case simdjson::dom::element_type::STRING:
        return "string";
      case simdjson::dom::element_type::BOOL:
        return "boolean";
      case simdjson::dom::element_type::NULL_VALUE:
        return "null";
      default:
        return "number";
    }
  }
  [[noreturn]] void mistyped(const char* expected) const {
    fail(fmt::format("should be {}, is {}", expected, type_name()));
  }
  template <typename T>
  T integer() const {
    std::int64_t negative = 0;
    std::uint64_t positive = 0;
    if (value_.is<std::int64_t>() && value_.get(negative) == simdjson::SUCCESS) {
      if (std::in_range<T>(negative)) return static_cast<T>(negative);
    } else if (value_.get(positive) == simdjson::SUCCESS) {
      if (std::in_range<T>(positive)) return static_cast<T>(positive);
    } else {
      mistyped("an integer");
    }
    fail(fmt::format("{} is out of range", json().dump()));
  }
  bool noted(const char* key) const {
    const auto notes = find("not_finite");
    return notes && JsonReader(*notes, this, "not_finite").has(key);
  }
  double not_finite(const char* key) const {
    if (const auto notes = find("not_finite")) {
      const auto note = JsonReader(*notes, this, "not_finite").find(key);
      std::string_view said;
      if (note && note->get(said) == simdjson::SUCCESS) {
        if (said == "nan") return std::numeric_limits<double>::quiet_NaN();
        if (said == "inf") return std::numeric_limits<double>::infinity();
        if (said == "-inf") return -std::numeric_limits<double>::infinity();
      }
    }
    fail(fmt::format("the field \"{}\" is null, and no \"not_finite\" says why", key));
  }

  simdjson::dom::element value_;
  const JsonReader* parent_ = nullptr;
  std::string_view key_;
  std::size_t index_ = 0;
  std::string root_;
};

}  // namespace assay
