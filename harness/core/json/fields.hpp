// Describes once how a struct looks as a JSON object. The description is used to write the struct
// (encode.hpp), to read it with errors that name the JSON path (decode.hpp) and to make a JSON schema
// (schema.hpp). To describe a struct,
// define next to it, in its namespace:
//
//   inline Description describe(Of<Block>) {
//     return fields("block", "A stretch of steps between two drains of the device.",
//                   field("steps", &Block::steps, "Steps in it.").at_least(0),
//                   field("loss", &Block::loss, "Mean loss of its steps."));
//   }
//
// Members may be bool, integers, double, float, std::string, std::filesystem::path, enums with words
// (core/words.hpp), nlohmann::json (any value), described structs, and std::optional, Reported (reported.hpp),
// std::vector and std::map<std::string, …> of these, and maps from integers. An absent optional is null in JSON. A type that
// fits no description has its own functions instead: encode(const T&), schema_of(Of<T>) and decode_with(const
// Decoder&, const nlohmann::json&, const JsonPlace&, T&), found next to it.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/core/json/type.hpp"

namespace assay {

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

// An optional part of an owner, or a struct to which it points, whose fields are in the owner's object. An optional part
// exists if one of its fields is not null. What a pointer points to is written, but not read.
struct PartType {
  std::size_t offset;                    // of the optional or the pointer in the owner
  const void* (*get)(const void* part);  // nullptr: absent
  void* (*get_or_emplace)(void* part);   // nullptr for a pointer
  const void* (*initial)();
};

class Field {
 public:
  std::string_view key, doc;
  const Type* type;
  std::size_t offset;  // of the member in its owner, or in the part
  std::optional<PartType> part{};
  FieldRules rules{};
  std::function<bool(const void* owner)> written{};  // whether the field is written; empty: always
  // Makes a value that is no member and passes it on: it is written, but not read. Empty for a member.
  using Use = std::function<void(const void* value)>;
  std::function<void(const void* owner, const Use& use)> make{};

  // The member. A part that is absent has the values of a default-constructed part.
  const void* of(const void* owner) const;
  // Makes the part if it is absent.
  void* of(void* owner) const;

  Field& optional();
  Field& left_out_by_default();
  Field& left_out_of_columns();
  Field& in_columns();
  Field& null_is_nan();
  Field& at_least(double minimum);
  Field& between(double minimum, double maximum);
  Field& not_empty();
  Field& inline_before();
  Field& object();
  Field& unique();
  template <std::convertible_to<std::string_view>... Words>
  Field& one_of(Words... words) {
    rules.choices = {words...};
    return *this;
  }
  // For fields that exist only for some values of their owner. May be missing in the input.
  template <typename Owner>
  Field& written_if(bool (*applies)(const Owner&)) {
    written = [applies](const void* owner) { return applies(*static_cast<const Owner*>(owner)); };
    return optional();
  }
};

// A pointer to a data member is the member's offset: so says the Itanium C++ ABI, 2.3.1, which compilers for Linux follow.
template <typename Owner, typename Member>
std::size_t offset_of(Member Owner::* member) {
  return std::bit_cast<std::size_t>(member);
}

template <typename Owner, typename Member>
Field field(std::string_view key, Member Owner::* member, std::string_view doc) {
  return {key, doc, &type_of<Member>, offset_of(member)};
}
template <typename Owner, typename Part, typename Member>
Field field(std::string_view key, std::optional<Part> Owner::* part, Member Part::* member,
            std::string_view doc) {
  using Optional = std::optional<Part>;
  return {key, doc, &type_of<Member>, offset_of(member),
          PartType{.offset = offset_of(part),
                   .get = [](const void* optional) -> const void* {
                     const auto& there = *static_cast<const Optional*>(optional);
                     return there ? &*there : nullptr;
                   },
                   .get_or_emplace = [](void* optional) -> void* {
                     auto& there = *static_cast<Optional*>(optional);
                     return there ? &*there : &there.emplace();
                   },
                   .initial = []() -> const void* {
                     static const Part initial{};
                     return &initial;
                   }}};
}

template <typename Owner, typename Pointed, typename Member>
Field field(std::string_view key, const Pointed* Owner::* pointer, Member Pointed::* member,
            std::string_view doc) {
  return {key, doc, &type_of<Member>, offset_of(member),
          PartType{.offset = offset_of(pointer),
                   .get = [](const void* part) -> const void* {
                     return *static_cast<const Pointed* const*>(part);
                   },
                   .get_or_emplace = nullptr,
                   .initial = []() -> const void* {
                     static const Pointed initial{};
                     return &initial;
                   }}};
}
template <typename Owner, typename Value>
Field field(std::string_view key, Value (*make)(const Owner&), std::string_view doc) {
  Field made{key, doc, &type_of<Value>, 0};
  made.make = [make](const void* owner, const Field::Use& use) {
    const Value value = make(*static_cast<const Owner*>(owner));
    use(&value);
  };
  return made;
}

struct Description {
  std::string_view name;  // of the schema's definition: "block"
  std::string_view doc;
  std::vector<Field> list;

  // For a struct that begins with its only base: its own fields, then those of the base.
  Description followed_by(const Description& base) &&;
  const Field* find(std::string_view key) const;
};

template <std::same_as<Field>... Fields>
Description fields(std::string_view name, std::string_view doc, const Fields&... list) {
  return {name, doc, {list...}};
}

// The words for numbers that are not finite in a column, which has no place for a note.
inline constexpr std::array<std::string_view, 3> not_finite_words{"nan", "inf", "-inf"};

}  // namespace assay
