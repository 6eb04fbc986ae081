// Describes once how a struct looks as a JSON object. The description is used to write the struct
// (encode.hpp), to read it with errors that name the JSON path (decode.hpp) and to make a JSON schema
// (schema.hpp). To describe a struct,
// define next to it, in the namespace assay:
//
//   constexpr auto describe(Of<Block>) {
//     return fields("block", "A stretch of steps between two drains of the device.",
//                   field("steps", &Block::steps, "Steps in it.").at_least(0),
//                   field("loss", &Block::loss, "Mean loss of its steps."));
//   }
//
// Members may be bool, integers, double, float, std::string, std::filesystem::path, enums with words
// (core/words.hpp), nlohmann::json (any value), described structs, and std::optional, std::vector and
// std::map<std::string, …> of these, and maps from integers. An absent optional is null in JSON. A type that
// fits no description has its own functions instead: encode(const T&), schema_of(Of<T>) and decode_with(const
// Decoder<Node>&, const Node&, const JsonPlace&, T&), found next to it.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>

namespace assay {

template <typename T>
struct Of {};

// Rules of a field apart from its type.
struct FieldRules {
  // May be missing in the input: the member keeps its default. The field is still written, …
  bool may_be_missing = false;
  // … except with this rule, if it equals the value of a default-constructed struct.
  bool left_out_by_default = false;
  bool left_out_of_columns = false;  // the same, but only if the struct is stored as columns
  // A list of structs is stored as columns: {"steps": [3, 4], "loss": [0.5, 0.4]}. A column of equal entries
  // is stored as one value. A list of objects is read, too (DecodeOptions::older_forms).
  bool columns = false;
  // If the key is missing, its fields are read from the owner's object: older formats had them there.
  bool inline_before = false;
  bool object = false;  // the nlohmann::json is an object
  bool unique = false;  // the texts of a list are different
  // Reads null as NaN, if the format has no other way to mark a number that is not finite.
  bool null_is_nan = false;
  // Limits of a number, or of each number of a list or a map.
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  std::size_t min_length = 0;                 // of a text, a path or a list
  std::array<std::string_view, 4> choices{};  // for a text; ignored if all are empty
};

// The place of a field: a member of its owner, …
template <typename Struct, typename Value>
struct MemberOf {
  using Owner = Struct;
  using Member = Value;
  static constexpr bool in_part = false;
  Member Owner::* member;

  constexpr const Member& of(const Owner& owner) const { return owner.*member; }
  constexpr Member& of(Owner& owner) const { return owner.*member; }
};
// … or a member of an optional part of the owner, whose fields are in the owner's object. The part exists if
// one of its fields is not null.
template <typename Struct, typename Part, typename Value>
struct MemberOfPart {
  using Owner = Struct;
  using Member = Value;
  static constexpr bool in_part = true;
  std::optional<Part> Owner::* part;
  Member Part::* member;

  Member of(const Owner& owner) const { return owner.*part ? (*(owner.*part)).*member : Member{}; }
  Member& of(Owner& owner) const {
    std::optional<Part>& there = owner.*part;
    return there ? (*there).*member : there.emplace().*member;
  }
};

// ShapeOf: the described struct that a nlohmann::json is checked against and that the schema shows.
template <typename Place, typename ShapeOf = void>
struct Field {
  using Owner = typename Place::Owner;
  using Member = typename Place::Member;
  using Shape = ShapeOf;
  static constexpr bool in_part = Place::in_part;
  std::string_view key;
  Place place;
  std::string_view doc;
  FieldRules rules{};
  bool (*written)(const Owner&) = nullptr;  // whether the field is written; nullptr: always

  constexpr decltype(auto) of(const Owner& owner) const { return place.of(owner); }
  constexpr Member& of(Owner& owner) const { return place.of(owner); }

  constexpr Field optional() const {
    return with([](FieldRules& r) { r.may_be_missing = true; });
  }
  constexpr Field left_out_by_default() const {
    return with([](FieldRules& r) { r.may_be_missing = r.left_out_by_default = true; });
  }
  // For fields that exist only for some values of their owner. May be missing in the input.
  constexpr Field written_if(bool (*applies)(const Owner&)) const {
    Field changed = optional();
    changed.written = applies;
    return changed;
  }
  constexpr Field left_out_of_columns() const {
    return with([](FieldRules& r) { r.may_be_missing = r.left_out_of_columns = true; });
  }
  constexpr Field in_columns() const {
    return with([](FieldRules& r) { r.columns = true; });
  }
  constexpr Field null_is_nan() const {
    return with([](FieldRules& r) { r.null_is_nan = true; });
  }
  constexpr Field at_least(double minimum) const {
    return with([&](FieldRules& r) { r.minimum = minimum; });
  }
  constexpr Field between(double minimum, double maximum) const {
    return with([&](FieldRules& r) { r.minimum = minimum, r.maximum = maximum; });
  }
  constexpr Field not_empty() const {
    return with([](FieldRules& r) { r.min_length = 1; });
  }
  constexpr Field inline_before() const {
    return with([](FieldRules& r) { r.inline_before = true; });
  }
  constexpr Field object() const {
    return with([](FieldRules& r) { r.object = true; });
  }
  constexpr Field unique() const {
    return with([](FieldRules& r) { r.unique = true; });
  }
  template <typename... Words>
  constexpr Field one_of(Words... words) const {
    return with([&](FieldRules& r) { r.choices = {words...}; });
  }
  template <typename T>
  constexpr Field<Place, T> shaped_as() const {
    return {key, place, doc, rules, written};
  }

 private:
  template <typename Change>
  constexpr Field with(Change change) const {
    Field changed = *this;
    change(changed.rules);
    return changed;
  }
};

template <typename Owner, typename Member>
constexpr Field<MemberOf<Owner, Member>> field(std::string_view key, Member Owner::* member,
                                               std::string_view doc) {
  return {key, {member}, doc};
}
template <typename Owner, typename Part, typename Member>
constexpr Field<MemberOfPart<Owner, Part, Member>> field(std::string_view key,
                                                         std::optional<Part> Owner::* part,
                                                         Member Part::* member, std::string_view doc) {
  return {key, {part, member}, doc};
}

template <typename... Fields>
struct Description {
  std::string_view name;  // of the schema's definition: "block"
  std::string_view doc;
  std::tuple<Fields...> list;

  static constexpr std::size_t size = sizeof...(Fields);
  // For a struct with a base: its own fields, then those of the base.
  template <typename... Others>
  constexpr Description<Fields..., Others...> followed_by(const Description<Others...>& base) const {
    return {name, doc, std::tuple_cat(list, base.list)};
  }
  // Calls visit(field, index) for each field, in order.
  template <typename Visit>
  constexpr void each(const Visit& visit) const {
    std::size_t index = 0;
    std::apply([&](const auto&... one) { (visit(one, index++), ...); }, list);
  }
};

template <typename... Fields>
constexpr Description<Fields...> fields(std::string_view name, std::string_view doc, Fields... list) {
  return {name, doc, {list...}};
}

template <typename T>
concept Described = requires { describe(Of<T>{}); };

// The words for numbers that are not finite in a column, which has no place for a note.
inline constexpr std::array<std::string_view, 3> not_finite_words{"nan", "inf", "-inf"};

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;

}  // namespace assay
