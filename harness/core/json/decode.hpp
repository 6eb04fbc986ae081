// JSON -> struct, by its description (fields.hpp). Every error names the JSON path.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/json/fields.hpp"
#include "harness/core/json/strict_json.hpp"

namespace assay {

struct DecodeOptions {
  // Reject fields that no description has; otherwise they are ignored, so that older readers can read newer
  // files.
  bool reject_unknown = false;
  bool allow_extensions = true;  // with reject_unknown: still ignore fields whose name begins with "x_"
  // Accept older formats: lists of objects instead of columns, and fields in the owner's object.
  bool older_forms = true;
  // Reads null as the number that a note next to it names: {"loss": null, "not_finite": {"loss": "nan"}}. Such a
  // number passes every range.
  bool not_finite = true;
  // Collects violations, each with its path. nullptr: the first one throws JsonError.
  std::vector<std::string>* violations = nullptr;
  std::size_t max_violations = 20;  // the rest are dropped
};

// The decoder's position: a chain on the stack, so that a path costs nothing until an error needs it.
class JsonPlace {
 public:
  explicit JsonPlace(std::string_view root) : key_(root) {}
  JsonPlace(const JsonPlace& parent, std::string_view key) : parent_(&parent), key_(key) {}
  JsonPlace(const JsonPlace& parent, std::size_t index) : parent_(&parent), index_(index) {}

  // "run.json/cells/3/forks/0"
  std::string path() const;

 private:
  const JsonPlace* parent_ = nullptr;
  std::string_view key_;
  std::size_t index_ = 0;
};

class Decoder {
 public:
  Decoder() = default;
  explicit Decoder(DecodeOptions options) : options_(options) {}

  // Reads `json` into `out`. A violation throws JsonError or is collected (DecodeOptions::violations); then
  // `out` keeps its value.
  template <typename T>
  void read(const nlohmann::json& json, const JsonPlace& place, T& out) const {
    read_as(type_of<T>, json, place, &out);
  }
  void read_as(const Type& type, const nlohmann::json& json, const JsonPlace& place, void* out) const;
  // Checks a value against its rules.
  template <typename T>
  void check_rules(const JsonPlace& place, const FieldRules& rules, const T& value) const {
    check_rules_as(type_of<T>, place, rules, &value);
  }
  void check_rules_as(const Type& type, const JsonPlace& place, const FieldRules& rules,
                      const void* value) const;

  bool rejects_unknown() const { return options_.reject_unknown; }
  void reject_unknown(const JsonPlace& place, std::string_view key, std::string_view hint = {}) const;
  void fail(const JsonPlace& place, std::string_view what) const;

 private:
  struct Reader;

  bool has_enough_violations() const;
  void mistyped(const nlohmann::json& json, const JsonPlace& place, std::string_view expected) const;
  void reject_unknown(const JsonPlace& place, std::string_view key, const Description& description) const;
  void read_object(const ObjectType& type, const nlohmann::json& json, const JsonPlace& place,
                   void* out) const;
  void read_field(const Field& field, const nlohmann::json& owner_json, const nlohmann::json& json,
                  const JsonPlace& place, void* owner) const;
  void read_value(const Field& field, const nlohmann::json& json, const JsonPlace& place, void* member) const;
  std::optional<std::size_t> rows_of(const Description& description, const nlohmann::json& json,
                                     const JsonPlace& place) const;
  void read_columns(const ListType& type, const nlohmann::json& json, const JsonPlace& place,
                    void* out) const;
  void read_column(const Field& field, const ListType& type, const nlohmann::json& column,
                   const JsonPlace& place, void* list) const;
  void read_entry(const Field& field, const nlohmann::json& json, const JsonPlace& place, void* owner) const;

  DecodeOptions options_;
};

// `where` is the prefix of error texts: a file's name, or empty. Throws JsonError.
template <typename T>
void decode(const nlohmann::json& json, T& out, std::string_view where = {}, DecodeOptions options = {}) {
  Decoder(options).read(json, JsonPlace(where), out);
}
template <typename T>
T decoded(const nlohmann::json& json, std::string_view where = {}, DecodeOptions options = {}) {
  T out{};
  decode(json, out, where, options);
  return out;
}

}  // namespace assay
