// JSON -> struct, by its description (fields.hpp). Reads any JSON tree through a node type: TreeNode for
// nlohmann::json; report/json_document.hpp has one for simdjson. Every error names the JSON path.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/fields.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/core/words.hpp"

namespace assay {

// Why an integer could not be read.
enum class IntegerFault { none, not_an_integer, out_of_range };

// A value in a tree of nlohmann::json; borrows from it.
class TreeNode {
 public:
  explicit TreeNode(const nlohmann::json& value) : value_(&value) {}

  bool is_null() const { return value_->is_null(); }
  bool is_array() const { return value_->is_array(); }
  bool is_object() const { return value_->is_object(); }
  const char* type_name() const { return value_->type_name(); }
  std::size_t size() const { return value_->size(); }
  bool get(bool& out) const { return value_->is_boolean() && (out = value_->get<bool>(), true); }
  bool get(double& out) const { return value_->is_number() && (out = value_->get<double>(), true); }
  bool get(std::string_view& out) const {
    return value_->is_string() && (out = value_->get_ref<const std::string&>(), true);
  }
  template <typename T>
  IntegerFault get_integer(T& out) const {
    const auto fit = [&](auto number) {
      if (!std::in_range<T>(number)) return IntegerFault::out_of_range;
      out = static_cast<T>(number);
      return IntegerFault::none;
    };
    if (value_->is_number_unsigned()) return fit(value_->get<std::uint64_t>());
    if (value_->is_number_integer()) return fit(value_->get<std::int64_t>());
    return IntegerFault::not_an_integer;
  }
  template <typename Visit>
  void each_item(const Visit& visit) const {
    for (const nlohmann::json& item : *value_) visit(TreeNode(item));
  }
  template <typename Visit>
  void each_member(const Visit& visit) const {
    for (auto item = value_->begin(); item != value_->end(); ++item)
      visit(std::string_view(item.key()), TreeNode(*item));
  }
  nlohmann::json copy() const { return *value_; }

 private:
  const nlohmann::json* value_;
};

struct DecodeOptions {
  // Refuse fields that no description has; otherwise they are ignored, so that older readers read newer files.
  bool refuse_unknown = false;
  // Where violations go, each with its path. nullptr: the first one throws JsonError.
  std::vector<std::string>* violations = nullptr;
};

// Where the decoder is: a chain on the stack, so that a path costs nothing until an error needs it.
class JsonPlace {
 public:
  explicit JsonPlace(std::string_view root) : key_(root) {}
  JsonPlace(const JsonPlace& parent, std::string_view key) : parent_(&parent), key_(key) {}
  JsonPlace(const JsonPlace& parent, std::size_t index) : parent_(&parent), index_(index) {}

  // "run.json/cells/3/forks/0"
  std::string path() const {
    if (!parent_) return std::string(key_);
    constexpr std::size_t shown = 80;  // of a key that somebody else wrote
    const std::string step = key_.data() ? std::string(key_.substr(0, shown)) : std::to_string(index_);
    const std::string above = parent_->path();
    return above.empty() ? step : above + "/" + step;
  }

 private:
  const JsonPlace* parent_ = nullptr;
  std::string_view key_;
  std::size_t index_ = 0;
};

template <typename Node>
class Decoder {
 public:
  Decoder() = default;
  explicit Decoder(DecodeOptions options) : options_(options) {}

  // Each reads `node` into `out`. What is wrong throws JsonError, or is collected (DecodeOptions::violations);
  // then `out` keeps its value.
  void read(const Node& node, const JsonPlace& place, bool& out) const {
    if (!node.get(out)) mistyped(node, place, "true or false");
  }
  void read(const Node& node, const JsonPlace& place, double& out) const {
    std::string_view word;
    if (node.get(out)) return;
    if (node.get(word) && from_not_finite(word, out)) return;
    mistyped(node, place, "a number");
  }
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  void read(const Node& node, const JsonPlace& place, T& out) const {
    switch (node.get_integer(out)) {
      case IntegerFault::none:
        return;
      case IntegerFault::not_an_integer:
        return mistyped(node, place, "an integer");
      case IntegerFault::out_of_range:
        return fail(place, fmt::format("{} is out of range", node.copy().dump()));
    }
  }
  void read(const Node& node, const JsonPlace& place, std::string& out) const {
    std::string_view text;
    if (!node.get(text)) return mistyped(node, place, "text");
    out = text;
  }
  template <Worded E>
  void read(const Node& node, const JsonPlace& place, E& out) const {
    std::string_view text;
    if (!node.get(text)) return mistyped(node, place, "text");
    if (const auto found = from_word<E>(text))
      out = *found;
    else
      fail(place, fmt::format("\"{}\" is not one of {}", text.substr(0, 80), list_of_words<E>()));
  }
  void read(const Node& node, const JsonPlace&, nlohmann::json& out) const { out = node.copy(); }
  template <typename T>
  void read(const Node& node, const JsonPlace& place, std::optional<T>& out) const {
    out.reset();
    if (!node.is_null()) read(node, place, out.emplace());
  }
  template <typename T>
  void read(const Node& node, const JsonPlace& place, std::vector<T>& out) const {
    if (!node.is_array()) return mistyped(node, place, "a list");
    out.clear();
    out.reserve(node.size());
    node.each_item([&](const Node& item) {
      const JsonPlace at(place, out.size());
      read(item, at, out.emplace_back());
    });
  }
  template <typename T, typename Order>
  void read(const Node& node, const JsonPlace& place, std::map<std::string, T, Order>& out) const {
    if (!node.is_object()) return mistyped(node, place, "an object");
    out.clear();
    node.each_member([&](std::string_view key, const Node& item) {
      read(item, JsonPlace(place, key), out[std::string(key)]);
    });
  }
  template <Described T>
  void read(const Node& node, const JsonPlace& place, T& out) const {
    if (!node.is_object()) return mistyped(node, place, "an object");
    constexpr auto description = describe(Of<T>{});
    bool seen[description.size + 1] = {};
    node.each_member([&](std::string_view key, const Node& item) {
      bool known = key == "not_finite";
      description.each([&](const auto& field, std::size_t index) {
        if (known || field.key != key) return;
        known = seen[index] = true;
        read_field(node, item, JsonPlace(place, key), field, out);
      });
      if (!known && options_.refuse_unknown) fail(JsonPlace(place, key), "this field is not known");
    });
    description.each([&](const auto& field, std::size_t index) {
      if (!seen[index] && !field.rules.may_be_missing)
        fail(place, fmt::format("the field \"{}\" is missing", field.key));
    });
  }
  // {"steps": [3, 4], "loss": [0.5, 0.4]}, or a list of objects.
  template <Described T>
  void read_columns(const Node& node, const JsonPlace& place, std::vector<T>& out) const {
    if (node.is_array()) return read(node, place, out);
    if (!node.is_object()) return mistyped(node, place, "an object of columns");
    out.clear();
    bool sized = false;
    constexpr auto description = describe(Of<T>{});
    bool seen[description.size + 1] = {};
    node.each_member([&](std::string_view key, const Node& column) {
      bool known = false;
      const JsonPlace at(place, key);
      description.each([&](const auto& field, std::size_t index) {
        if (known || field.key != key) return;
        known = seen[index] = true;
        if (!column.is_array()) return mistyped(column, at, "a list");
        if (!std::exchange(sized, true)) out.resize(column.size());
        if (column.size() != out.size())
          return fail(at, fmt::format("has {} entries, the other columns {}", column.size(), out.size()));
        std::size_t row = 0;
        column.each_item([&](const Node& item) {
          const JsonPlace entry(at, row);
          read_value(item, entry, field, out[row].*field.member);
          ++row;
        });
      });
      if (!known && options_.refuse_unknown) fail(at, "this field is not known");
    });
    description.each([&](const auto& field, std::size_t index) {
      if (!seen[index] && !field.rules.may_be_missing)
        fail(place, fmt::format("the column \"{}\" is missing", field.key));
    });
  }

  void fail(const JsonPlace& place, std::string_view what) const {
    const std::string path = place.path();
    std::string text = path.empty() ? std::string(what) : fmt::format("{}: {}", path, what);
    if (!options_.violations) throw JsonError(text);
    options_.violations->push_back(std::move(text));
  }

 private:
  void mistyped(const Node& node, const JsonPlace& place, std::string_view expected) const {
    fail(place, fmt::format("should be {}, is {}", expected, node.type_name()));
  }
  static bool from_not_finite(std::string_view word, double& out) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (word == "nan") out = std::numeric_limits<double>::quiet_NaN();
    if (word == "inf") out = infinity;
    if (word == "-inf") out = -infinity;
    return word == "nan" || word == "inf" || word == "-inf";
  }
  // What {"not_finite": {"loss": "nan"}} next to a null says of it.
  static bool noted(const Node& object, std::string_view key, double& out) {
    bool found = false;
    object.each_member([&](std::string_view name, const Node& notes) {
      if (name != "not_finite" || !notes.is_object()) return;
      notes.each_member([&](std::string_view noted_key, const Node& note) {
        std::string_view word;
        if (noted_key == key && note.get(word)) found = from_not_finite(word, out);
      });
    });
    return found;
  }

  template <typename Field, typename Owner>
  void read_field(const Node& object, const Node& item, const JsonPlace& place, const Field& field,
                  Owner& owner) const {
    auto& member = owner.*field.member;
    using Member = std::remove_cvref_t<decltype(member)>;
    if constexpr (std::same_as<Member, double> || std::same_as<Member, std::optional<double>>) {
      double value = 0;
      if (item.is_null() && noted(object, field.key, value)) {
        member = value;
        return;
      }
      if (item.is_null() && std::same_as<Member, double> && !field.rules.null_is_nan)
        return fail(place, "is null, and no \"not_finite\" says why");
    }
    read_value(item, place, field, member);
  }
  template <typename Field, typename Member>
  void read_value(const Node& item, const JsonPlace& place, const Field& field, Member& member) const {
    if constexpr (std::same_as<Member, double> || std::same_as<Member, std::optional<double>>) {
      if (item.is_null() && field.rules.null_is_nan) {
        member = std::numeric_limits<double>::quiet_NaN();
        return;
      }
    }
    if constexpr (requires { read_columns(item, place, member); }) {
      if (field.rules.columns) return read_columns(item, place, member);
    }
    read(item, place, member);
    check_rules(place, field.rules, member);
  }
  template <typename Member>
  void check_rules(const JsonPlace& place, const FieldRules& rules, const Member& member) const {
    if constexpr (is_optional<Member>) {
      if (member) check_rules(place, rules, *member);
    } else if constexpr (std::same_as<Member, std::string>) {
      if (member.size() < rules.min_length) fail(place, "is empty");
    } else if constexpr (std::is_arithmetic_v<Member> && !std::same_as<Member, bool>) {
      const double value = static_cast<double>(member);
      if (value < rules.minimum) fail(place, fmt::format("{} is below {}", member, rules.minimum));
      if (value > rules.maximum) fail(place, fmt::format("{} is above {}", member, rules.maximum));
    }
  }

  DecodeOptions options_;
};

// `where` leads the errors: a file's name, or nothing. Throws JsonError.
template <typename T>
void decode(const nlohmann::json& json, T& out, std::string_view where = {}, DecodeOptions options = {}) {
  Decoder<TreeNode>(options).read(TreeNode(json), JsonPlace(where), out);
}
template <typename T>
T decoded(const nlohmann::json& json, std::string_view where = {}, DecodeOptions options = {}) {
  T out{};
  decode(json, out, where, options);
  return out;
}

}  // namespace assay
