// What a struct looks like as a JSON object, said once. From it the struct is written (encode.hpp), read with
// errors that name the JSON path (decode.hpp) and put into a JSON schema (schema.hpp). To describe a struct,
// define next to it, in the namespace assay:
//
//   constexpr auto describe(Of<Block>) {
//     return fields("block", "A stretch of steps between two drains of the device.",
//                   field("steps", &Block::steps, "Steps in it.").at_least(0),
//                   field("loss", &Block::loss, "Mean loss of its steps."));
//   }
//
// Members may be bool, integers, double, float, std::string, std::filesystem::path, enums with words (core/words.hpp), nlohmann::json (any
// value), described structs, and std::optional, std::vector and std::map<std::string, …> of these, and maps from integers. An absent
// optional is null in JSON. A type that no description fits has functions of its own instead: encode(const T&),
// schema_of(Of<T>) and decode_with(const Decoder<Node>&, const Node&, const JsonPlace&, T&), found next to it.
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

// What holds for a field apart from its type.
struct FieldRules {
  // May be missing in what is read: the member keeps its default. What is written has it all the same, …
  bool may_be_missing = false;
  // … unless it is left out where it is equal to that of a default-constructed struct.
  bool left_out_by_default = false;
  bool left_out_of_columns = false;  // the same, but only where the struct is stored as columns
  // A list of structs stored as columns: {"steps": [3, 4], "loss": [0.5, 0.4]}. A column whose entries are all the
  // same is stored as that one value. A list of objects is read, too (DecodeOptions::older_forms).
  bool columns = false;
  // Where the key is missing, its fields are read from the owner's object: older formats had them there.
  bool inline_before = false;
  bool object = false;  // of a nlohmann::json: it is an object
  bool unique = false;  // of a list of texts
  // Reads null as NaN, where the format has no other way to say that a number is not finite.
  bool null_is_nan = false;
  // Of a number, or of each number of a list or a map.
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  std::size_t min_length = 0;                 // of a text, a path or a list
  std::array<std::string_view, 4> choices{};  // of a text, where not all are empty
};

// Where a field is: a member of its owner, …
template <typename Struct, typename Value>
struct MemberOf {
  using Owner = Struct;
  using Member = Value;
  static constexpr bool in_part = false;
  Member Owner::* member;

  constexpr const Member& of(const Owner& owner) const { return owner.*member; }
  constexpr Member& of(Owner& owner) const { return owner.*member; }
};
// … or a member of an optional part of the owner, whose fields are in the owner's object. The part is there when
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

// ShapeOf: of a nlohmann::json, the described struct as which it is checked and put into the schema.
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
  // For fields that only some values of their owner have. May be missing in what is read.
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
  constexpr Field at_least(double least) const {
    return with([&](FieldRules& r) { r.minimum = least; });
  }
  constexpr Field between(double least, double most) const {
    return with([&](FieldRules& r) { r.minimum = least, r.maximum = most; });
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
  // Of a struct with a base: its own fields, then those of the base.
  template <typename... Others>
  constexpr Description<Fields..., Others...> followed_by(const Description<Others...>& base) const {
    return {name, doc, std::tuple_cat(list, base.list)};
  }
  // visit(field, index) of each, in order.
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

// What a number that is not finite is in a column, where a note next to it has no place.
inline constexpr std::array<std::string_view, 3> not_finite_words{"nan", "inf", "-inf"};

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;

}  // namespace assay
