// JSON -> struct, by its description (fields.hpp). Reads any JSON tree through a node type: TreeNode for
// nlohmann::json; report/json_document.hpp has one for simdjson. Every error names the JSON path.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/fields.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/core/json/tree_node.hpp"
#include "harness/core/text.hpp"
#include "harness/core/words.hpp"

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
  // Checks JSON that is stored unparsed against the struct that its description names (Field::shaped_as).
  bool shapes = true;
  // Collects violations, each with its path. nullptr: the first one throws JsonError.
  std::vector<std::string>* violations = nullptr;
  std::size_t max_violations = 20;  // the rest are dropped
};

template <typename Node>
class Decoder {
 public:
  Decoder() = default;
  explicit Decoder(DecodeOptions options) : options_(options) {}

  // Each reads `node` into `out`. A violation throws JsonError or is collected (DecodeOptions::violations);
  // then `out` keeps its value.
  void read(const Node& node, const JsonPlace& place, bool& out) const {
    if (!node.get(out)) mistyped(node, place, "true or false");
  }
  void read(const Node& node, const JsonPlace& place, double& out) const {
    if (!node.get(out)) mistyped(node, place, "a number");
  }
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  void read(const Node& node, const JsonPlace& place, T& out) const {
    switch (node.get_integer(out)) {
      case IntegerFault::fits:
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
  void read(const Node& node, const JsonPlace& place, std::filesystem::path& out) const {
    std::string text;
    read(node, place, text);
    out = text;
  }
  void read(const Node& node, const JsonPlace& place, float& out) const {
    double value = out;
    read(node, place, value);
    if (std::abs(value) > std::numeric_limits<float>::max())
      return fail(place, fmt::format("{} is out of range", value));
    out = static_cast<float>(value);
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
    // A list of bad entries takes two bytes an entry in the file, and a struct of many fields a thousand in memory.
    constexpr std::size_t max_reserved = 4096;
    out.clear();
    out.reserve(std::min(node.size(), max_reserved));
    node.each_item([&](const Node& item) {
      if (has_enough_violations()) return;
      const JsonPlace at(place, out.size());
      read(item, at, out.emplace_back());
    });
  }
  template <typename T, typename Order>
  void read(const Node& node, const JsonPlace& place, std::map<std::string, T, Order>& out) const {
    if (!node.is_object()) return mistyped(node, place, "an object");
    out.clear();
    node.each_member([&](std::string_view key, const Node& item) {
      if (has_enough_violations()) return;
      read(item, JsonPlace(place, key), out[std::string(key)]);
    });
  }
  template <std::integral K, typename T>
  void read(const Node& node, const JsonPlace& place, std::map<K, T>& out) const {
    if (!node.is_object()) return mistyped(node, place, "an object");
    out.clear();
    node.each_member([&](std::string_view key, const Node& item) {
      K number{};
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
      if (error != std::errc{} || end != key.data() + key.size())
        return fail(JsonPlace(place, key), "is not a whole number");
      read(item, JsonPlace(place, key), out[number]);
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
      if (!known && options_.reject_unknown) reject_unknown<T>(JsonPlace(place, key), key);
    });
    description.each([&](const auto& field, std::size_t index) {
      if (seen[index] || field.rules.may_be_missing) return;
      if (field.rules.inline_before && options_.older_forms) return read(node, place, field.of(out));
      fail(place, fmt::format("the field \"{}\" is missing", field.key));
    });
  }
  // A type with its own decode_with().
  template <typename T>
    requires requires(const Decoder& decoder, const Node& node, const JsonPlace& place, T& out) {
      decode_with(decoder, node, place, out);
    }
  void read(const Node& node, const JsonPlace& place, T& out) const {
    decode_with(*this, node, place, out);
  }
  // {"steps": [3, 4], "loss": [0.5, 0.4]}, or a list of objects.
  template <Described T>
  void read_columns(const Node& node, const JsonPlace& place, std::vector<T>& out) const {
    if (node.is_array() && options_.older_forms) return read(node, place, out);
    if (!node.is_object()) return mistyped(node, place, "an object of columns");
    out.clear();
    const std::optional<std::size_t> rows = rows_of<T>(node, place);
    if (!rows) return;
    out.resize(*rows);
    constexpr auto description = describe(Of<T>{});
    bool seen[description.size + 1] = {};
    node.each_member([&](std::string_view key, const Node& column) {
      bool known = false;
      const JsonPlace at(place, key);
      description.each([&](const auto& field, std::size_t index) {
        if (known || field.key != key) return;
        known = seen[index] = true;
        read_column(column, at, field, out);
      });
      if (!known && options_.reject_unknown) reject_unknown<T>(at, key);
    });
    description.each([&](const auto& field, std::size_t index) {
      if (!seen[index] && !field.rules.may_be_missing && node.size() > 0)
        fail(place, fmt::format("the column \"{}\" is missing", field.key));
    });
  }

  bool rejects_unknown() const { return options_.reject_unknown; }
  void reject_unknown(const JsonPlace& place, std::string_view key, std::string_view hint = {}) const {
    if (options_.allow_extensions && key.starts_with("x_")) return;
    fail(place, fmt::format("unknown field{}", hint));
  }
  // Checks a value against its rules.
  template <typename Member>
  void check_rules(const JsonPlace& place, const FieldRules& rules, const Member& member) const {
    if constexpr (is_optional<Member>) {
      if (member) check_rules(place, rules, *member);
    } else if constexpr (std::same_as<Member, std::string>) {
      if (member.size() < rules.min_length) fail(place, "is empty");
      if (const auto choices = used(rules.choices);
          !choices.empty() && std::ranges::find(choices, member) == choices.end())
        fail(place, fmt::format("\"{}\" is not one of {}", member.substr(0, 80), fmt::join(choices, ", ")));
    } else if constexpr (std::same_as<Member, nlohmann::json>) {
      if (rules.object && !member.is_object())
        fail(place, fmt::format("should be an object, is {}", member.type_name()));
    } else if constexpr (std::same_as<Member, std::vector<std::string>>) {
      if (member.size() < rules.min_length) fail(place, "is empty");
      if (rules.unique && std::set<std::string_view>(member.begin(), member.end()).size() != member.size())
        fail(place, "an entry is repeated");
    } else if constexpr (std::same_as<Member, std::filesystem::path>) {
      if (member.native().size() < rules.min_length) fail(place, "is empty");
    } else if constexpr (std::same_as<Member, std::vector<std::int64_t>>) {
      if (member.size() < rules.min_length) fail(place, "is empty");
      for (std::size_t i = 0; i < member.size(); ++i) check_rules(JsonPlace(place, i), rules, member[i]);
    } else if constexpr (std::same_as<Member, std::map<std::string, std::int64_t>>) {
      for (const auto& [key, number] : member) check_rules(JsonPlace(place, key), rules, number);
    } else if constexpr (std::is_arithmetic_v<Member> && !std::same_as<Member, bool>) {
      const double value = static_cast<double>(member);
      if (value < rules.minimum) fail(place, fmt::format("{} is below {}", member, rules.minimum));
      if (value > rules.maximum) fail(place, fmt::format("{} is above {}", member, rules.maximum));
    }
  }

  void fail(const JsonPlace& place, std::string_view what) const {
    const std::string path = place.path();
    std::string text = path.empty() ? std::string(what) : fmt::format("{}: {}", path, what);
    if (!options_.violations) throw JsonError(text);
    if (!has_enough_violations()) options_.violations->push_back(std::move(text));
  }

 private:
  // Further ones are not kept, so lists and maps are not read on.
  bool has_enough_violations() const {
    return options_.violations && options_.violations->size() >= options_.max_violations;
  }
  template <Described T>
  void reject_unknown(const JsonPlace& place, std::string_view key) const {
    std::vector<std::string> known;
    describe(Of<T>{}).each([&](const auto& field, std::size_t) { known.emplace_back(field.key); });
    reject_unknown(place, key, nearest(key, known));
  }
  void mistyped(const Node& node, const JsonPlace& place, std::string_view expected) const {
    fail(place, fmt::format("should be {}, is {}", expected, node.type_name()));
  }
  static bool from_not_finite(std::string_view word, double& out) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr std::array values{std::numeric_limits<double>::quiet_NaN(), infinity, -infinity};
    for (std::size_t i = 0; i < values.size(); ++i)
      if (word == not_finite_words[i]) return out = values[i], true;
    return false;
  }
  static std::span<const std::string_view> used(const std::array<std::string_view, 4>& choices) {
    return {choices.begin(), std::ranges::find(choices, std::string_view())};
  }
  // Reads the note {"not_finite": {"loss": "nan"}} next to a null.
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

  // The number of rows of the columns; nothing if they differ.
  template <typename T>
  std::optional<std::size_t> rows_of(const Node& node, const JsonPlace& place) const {
    std::optional<std::size_t> rows;
    bool fits = true, any = false;
    node.each_member([&](std::string_view key, const Node& column) {
      bool known = false;
      describe(Of<T>{}).each([&](const auto& field, std::size_t) { known = known || field.key == key; });
      any = any || known;
      if (!known || !fits || !column.is_array()) return;
      const std::size_t size = column.size();
      fits = size == rows.value_or(size);
      if (!fits)
        fail(JsonPlace(place, key), fmt::format("has {} entries, the other columns {}", size, *rows));
      rows = size;
    });
    if (!fits) return std::nullopt;
    if (!rows && any) return fail(place, "no column is a list: the number of rows is unknown"), std::nullopt;
    return rows.value_or(0);
  }
  template <typename Field, typename T>
  void read_column(const Node& column, const JsonPlace& at, const Field& field, std::vector<T>& out) const {
    if (!column.is_array()) {  // one value for all rows
      if (out.empty()) return;
      read_entry(column, at, field, out.front());
      for (std::size_t row = 1; row < out.size(); ++row)
        if (!(Field::in_part && column.is_null())) field.of(out[row]) = field.of(out.front());
      return;
    }
    std::size_t row = 0;
    column.each_item([&](const Node& item) {
      read_entry(item, JsonPlace(at, row), field, out[row]);
      ++row;
    });
  }
  template <typename Field, typename Owner>
  void read_entry(const Node& item, const JsonPlace& place, const Field& field, Owner& owner) const {
    if (Field::in_part && item.is_null()) return;
    using Member = typename Field::Member;
    if constexpr (std::same_as<Member, double> || std::same_as<Member, std::optional<double>>) {
      std::string_view word;
      double value = 0;
      if (options_.not_finite && item.get(word) && from_not_finite(word, value)) {
        field.of(owner) = value;
        return;
      }
    }
    read_value(item, place, field, field.of(owner));
  }
  template <typename Field, typename Owner>
  void read_field(const Node& object, const Node& item, const JsonPlace& place, const Field& field,
                  Owner& owner) const {
    using Member = typename Field::Member;
    if constexpr (std::same_as<Member, double> || std::same_as<Member, std::optional<double>>) {
      double value = 0;
      if (options_.not_finite && item.is_null() && noted(object, field.key, value)) {
        field.of(owner) = value;
        return;
      }
      if (item.is_null() && std::same_as<Member, double> && !field.rules.null_is_nan)
        return fail(place, "is null, and no \"not_finite\" says why");
    }
    if (Field::in_part && item.is_null()) return;
    if constexpr (!std::is_void_v<typename Field::Shape>) {
      typename Field::Shape shape{};
      if (options_.shapes) read(item, place, shape);
    }
    read_value(item, place, field, field.of(owner));
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

  DecodeOptions options_;
};

// `where` is the prefix of error texts: a file's name, or empty. Throws JsonError.
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
