#include "harness/core/json/decode.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/text.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;
using type_maker::as;

std::span<const std::string_view> used(const std::array<std::string_view, 4>& choices) {
  return {choices.begin(), std::ranges::find(choices, std::string_view())};
}

const std::string* text_in(const Json& json) { return json.get_ptr<const std::string*>(); }

std::optional<double> number_of(std::string_view word) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr std::array values{std::numeric_limits<double>::quiet_NaN(), infinity, -infinity};
  for (std::size_t i = 0; i < values.size(); ++i)
    if (word == not_finite_words[i]) return values[i];
  return std::nullopt;
}

// The number of the note {"not_finite": {"loss": "nan"}} next to a null.
std::optional<double> noted(const Json& object, std::string_view key) {
  const auto notes = object.find("not_finite");
  if (notes == object.end() || !notes->is_object()) return std::nullopt;
  const auto note = notes->find(key);
  const std::string* word = note == notes->end() ? nullptr : text_in(*note);
  return word ? number_of(*word) : std::nullopt;
}

// `value` is a double or an optional one.
void set_double(const Type& type, void* value, double number) {
  const auto* optional = type.as<OptionalType>();
  as<double>(optional ? optional->emplace(value) : value) = number;
}

}  // namespace

std::string JsonPlace::path() const {
  if (!parent_) return std::string(key_);
  constexpr std::size_t shown = 80;  // of a key that somebody else wrote
  const std::string step = key_.data() ? std::string(key_.substr(0, shown)) : std::to_string(index_);
  const std::string above = parent_->path();
  return above.empty() ? step : above + "/" + step;
}

// ---- errors

void Decoder::fail(const JsonPlace& place, std::string_view what) const {
  const std::string path = place.path();
  std::string text = path.empty() ? std::string(what) : fmt::format("{}: {}", path, what);
  if (!options_.violations) throw JsonError(text);
  if (!has_enough_violations()) options_.violations->push_back(std::move(text));
}

// Further ones are not kept, so lists and maps are not read on.
bool Decoder::has_enough_violations() const {
  return options_.violations && options_.violations->size() >= options_.max_violations;
}

void Decoder::mistyped(const Json& json, const JsonPlace& place, std::string_view expected) const {
  fail(place, fmt::format("should be {}, is {}", expected, json.type_name()));
}

void Decoder::reject_unknown(const JsonPlace& place, std::string_view key, std::string_view hint) const {
  if (options_.allow_extensions && key.starts_with("x_")) return;
  fail(place, fmt::format("unknown field{}", hint));
}

void Decoder::reject_unknown(const JsonPlace& place, std::string_view key,
                             const Description& description) const {
  if (!options_.reject_unknown) return;
  std::vector<std::string> known;
  for (const Field& field : description.list) known.emplace_back(field.key);
  reject_unknown(place, key, nearest(key, known));
}

// ---- values

struct Decoder::Reader {
  const Decoder& decoder;
  const Json& json;
  const JsonPlace& place;
  void* out;

  void operator()(const BooleanType&) const {
    if (!json.is_boolean()) return decoder.mistyped(json, place, "true or false");
    as<bool>(out) = json.get<bool>();
  }
  void operator()(const IntegerType& type) const {
    if (!json.is_number_integer()) return decoder.mistyped(json, place, "an integer");
    const Integer number =
        json.is_number_unsigned() ? Integer(json.get<std::uint64_t>()) : json.get<std::int64_t>();
    if (!set_integer(type, number, out)) decoder.fail(place, fmt::format("{} is out of range", json.dump()));
  }
  void operator()(const DoubleType&) const {
    if (!json.is_number()) return decoder.mistyped(json, place, "a number");
    as<double>(out) = json.get<double>();
  }
  void operator()(const FloatType&) const {
    double value = as<float>(out);
    decoder.read(json, place, value);
    if (std::abs(value) > std::numeric_limits<float>::max())
      return decoder.fail(place, fmt::format("{} is out of range", value));
    as<float>(out) = static_cast<float>(value);
  }
  void operator()(const TextType&) const {
    if (const std::string* text = text_in(json))
      as<std::string>(out) = *text;
    else
      decoder.mistyped(json, place, "text");
  }
  void operator()(const ViewType&) const { assert(false); }
  void operator()(const PathType&) const {
    std::string text;
    decoder.read(json, place, text);
    as<std::filesystem::path>(out) = text;
  }
  void operator()(const AnyType&) const { as<Json>(out) = json; }
  void operator()(const WordType& type) const {
    const std::string* text = text_in(json);
    if (!text) return decoder.mistyped(json, place, "text");
    if (!type.set(out, *text))
      decoder.fail(place,
                   fmt::format("\"{}\" is not one of {}", text->substr(0, 80), fmt::join(type.words, ", ")));
  }
  void operator()(const OptionalType& type) const {
    type.set_null(out);
    if (!json.is_null()) decoder.read_as(*type.inner, json, place, type.emplace(out));
  }
  void operator()(const ListType& type) const {
    if (!json.is_array()) return decoder.mistyped(json, place, "a list");
    // A list of bad entries takes two bytes an entry in the file, and a struct of many fields a thousand in memory.
    constexpr std::size_t max_reserved = 4096;
    type.clear(out, std::min(json.size(), max_reserved));
    for (std::size_t i = 0; i < json.size() && !decoder.has_enough_violations(); ++i)
      decoder.read_as(*type.inner, json[i], JsonPlace(place, i), type.append(out));
  }
  void operator()(const MapType& type) const {
    if (!json.is_object()) return decoder.mistyped(json, place, "an object");
    type.clear(out);
    for (auto item = json.begin(); item != json.end() && !decoder.has_enough_violations(); ++item) {
      const JsonPlace at(place, item.key());
      if (void* value = type.slot(out, item.key()))
        decoder.read_as(*type.inner, *item, at, value);
      else
        decoder.fail(at, "is not a whole number");
    }
  }
  void operator()(const ObjectType& type) const { decoder.read_object(type, json, place, out); }
  void operator()(const OwnType& type) const { type.decode(decoder, json, place, out); }
};

void Decoder::read_as(const Type& type, const Json& json, const JsonPlace& place, void* out) const {
  std::visit(Reader{*this, json, place, out}, type.kind);
}

void Decoder::check_rules_as(const Type& type, const JsonPlace& place, const FieldRules& rules,
                             const void* value) const {
  const auto check_number = [&](const auto& number) {
    const double as_double = static_cast<double>(number);
    if (as_double < rules.minimum) fail(place, fmt::format("{} is below {}", number, rules.minimum));
    if (as_double > rules.maximum) fail(place, fmt::format("{} is above {}", number, rules.maximum));
  };
  const auto check_length = [&](std::size_t length) {
    if (length < rules.min_length) fail(place, "is empty");
  };
  const auto is_number = [](const Type& one) { return one.as<IntegerType>() || one.as<DoubleType>(); };
  if (const auto* optional = type.as<OptionalType>()) {
    if (const void* inner = optional->get(value)) check_rules_as(*optional->inner, place, rules, inner);
  } else if (type.as<TextType>()) {
    const auto& text = as<std::string>(value);
    check_length(text.size());
    if (const auto choices = used(rules.choices);
        !choices.empty() && std::ranges::find(choices, text) == choices.end())
      fail(place, fmt::format("\"{}\" is not one of {}", text.substr(0, 80), fmt::join(choices, ", ")));
  } else if (type.as<AnyType>()) {
    const auto& json = as<Json>(value);
    if (rules.object && !json.is_object())
      fail(place, fmt::format("should be an object, is {}", json.type_name()));
  } else if (type.as<PathType>()) {
    check_length(as<std::filesystem::path>(value).native().size());
  } else if (const auto* list = type.as<ListType>()) {
    const std::size_t size = list->size(value);
    check_length(size);
    if (is_number(*list->inner))
      for (std::size_t i = 0; i < size; ++i)
        check_rules_as(*list->inner, JsonPlace(place, i), rules, list->at(value, i));
    std::set<std::string_view> texts;
    if (rules.unique)
      for (std::size_t i = 0; i < size; ++i)
        if (!texts.insert(as<std::string>(list->at(value, i))).second)
          return fail(place, "an entry is repeated");
  } else if (const auto* map = type.as<MapType>(); map && is_number(*map->inner)) {
    map->each(value, [&](const std::string& key, const void* item) {
      check_rules_as(*map->inner, JsonPlace(place, key), rules, item);
    });
  } else if (const auto* integer = type.as<IntegerType>()) {
    std::visit(check_number, integer_at(*integer, value));
  } else if (type.as<DoubleType>()) {
    check_number(as<double>(value));
  } else if (type.as<FloatType>()) {
    check_number(as<float>(value));
  }
}

// ---- structs

void Decoder::read_object(const ObjectType& type, const Json& json, const JsonPlace& place, void* out) const {
  if (!json.is_object()) return mistyped(json, place, "an object");
  const Description& description = type.description();
  for (auto item = json.begin(); item != json.end(); ++item) {
    const JsonPlace at(place, item.key());
    if (const Field* field = description.find(item.key()))
      read_field(*field, json, *item, at, out);
    else if (item.key() != "not_finite")
      reject_unknown(at, item.key(), description);
  }
  for (const Field& field : description.list) {
    if (field.rules.may_be_missing || json.contains(field.key)) continue;
    if (field.rules.inline_before && options_.older_forms)
      read_as(*field.type, json, place, field.of(out));
    else
      fail(place, fmt::format("the field \"{}\" is missing", field.key));
  }
}

void Decoder::read_field(const Field& field, const Json& owner_json, const Json& json, const JsonPlace& place,
                         void* owner) const {
  if (json.is_null() && field.type->is_double()) {
    const auto number = options_.not_finite ? noted(owner_json, field.key) : std::nullopt;
    if (number) return set_double(*field.type, field.of(owner), *number);
    if (field.type->as<DoubleType>() && !field.rules.null_is_nan)
      return fail(place, "is null, and no \"not_finite\" says why");
  }
  if (field.part && json.is_null()) return;
  read_value(field, json, place, field.of(owner));
}

void Decoder::read_value(const Field& field, const Json& json, const JsonPlace& place, void* member) const {
  if (json.is_null() && field.rules.null_is_nan && field.type->is_double())
    return set_double(*field.type, member, std::numeric_limits<double>::quiet_NaN());
  if (field.rules.columns) return read_columns(*field.type->as<ListType>(), json, place, member);
  read_as(*field.type, json, place, member);
  check_rules_as(*field.type, place, field.rules, member);
}

// ---- columns: {"steps": [3, 4], "loss": [0.5, 0.4]}, or a list of objects

// Nothing if the columns differ.
std::optional<std::size_t> Decoder::rows_of(const Description& description, const Json& json,
                                            const JsonPlace& place) const {
  std::optional<std::size_t> rows;
  bool any = false;
  for (auto column = json.begin(); column != json.end(); ++column) {
    if (!description.find(column.key())) continue;
    any = true;
    if (!column->is_array()) continue;
    if (rows && column->size() != *rows)
      return fail(JsonPlace(place, column.key()),
                  fmt::format("has {} entries, the other columns {}", column->size(), *rows)),
             std::nullopt;
    rows = column->size();
  }
  if (!rows && any) return fail(place, "no column is a list: the number of rows is unknown"), std::nullopt;
  return rows.value_or(0);
}

void Decoder::read_columns(const ListType& type, const Json& json, const JsonPlace& place, void* out) const {
  if (json.is_array() && options_.older_forms) return Reader{*this, json, place, out}(type);
  if (!json.is_object()) return mistyped(json, place, "an object of columns");
  const Description& description = type.inner->as<ObjectType>()->description();
  const std::optional<std::size_t> rows = rows_of(description, json, place);
  constexpr std::size_t max_rows = 1'000'000;  // of a fork's blocks or samples
  if (rows && *rows > max_rows) return fail(place, fmt::format("has {} rows, more than {}", *rows, max_rows));
  type.clear(out, rows.value_or(0));
  if (!rows) return;
  for (std::size_t row = 0; row < *rows; ++row) type.append(out);
  for (auto column = json.begin(); column != json.end(); ++column) {
    const JsonPlace at(place, column.key());
    if (const Field* field = description.find(column.key()))
      read_column(*field, type, *column, at, out);
    else
      reject_unknown(at, column.key(), description);
  }
  for (const Field& field : description.list)
    if (!field.rules.may_be_missing && !json.empty() && !json.contains(field.key))
      fail(place, fmt::format("the column \"{}\" is missing", field.key));
}

void Decoder::read_column(const Field& field, const ListType& type, const Json& column,
                          const JsonPlace& place, void* list) const {
  const auto violations = [&] { return options_.violations ? options_.violations->size() : 0; };
  const bool same = !column.is_array();  // one value for all rows
  for (std::size_t row = 0; row < type.size(list); ++row) {
    void* owner = const_cast<void*>(type.at(list, row));
    const std::size_t before = violations();
    if (!same)
      read_entry(field, column[row], JsonPlace(place, row), owner);
    else if (read_entry(field, column, place, owner); violations() > before)
      return;
  }
}

void Decoder::read_entry(const Field& field, const Json& json, const JsonPlace& place, void* owner) const {
  if (field.part && json.is_null()) return;
  if (const std::string* word = text_in(json); word && options_.not_finite && field.type->is_double())
    if (const auto number = number_of(*word)) return set_double(*field.type, field.of(owner), *number);
  read_value(field, json, place, field.of(owner));
}

}  // namespace assay
