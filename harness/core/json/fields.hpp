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
// Members may be bool, integers, double, std::string, enums with words (core/words.hpp), nlohmann::json (any
// value), described structs, and std::optional, std::vector and std::map<std::string, …> of these. An absent
// optional is null in JSON.
#pragma once

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
  // A list of structs stored as columns: {"steps": [3, 4], "loss": [0.5, 0.4]}. A list of objects is read, too.
  bool columns = false;
  // Reads null as NaN, where the format has no other way to say that a number is not finite.
  bool null_is_nan = false;
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  std::size_t min_length = 0;  // of a text
};

template <typename Owner, typename Member>
struct Field {
  std::string_view key;
  Member Owner::* member;
  std::string_view doc;
  FieldRules rules{};

  constexpr Field optional() const {
    return with([](FieldRules& r) { r.may_be_missing = true; });
  }
  constexpr Field left_out_by_default() const {
    return with([](FieldRules& r) { r.may_be_missing = r.left_out_by_default = true; });
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

 private:
  template <typename Change>
  constexpr Field with(Change change) const {
    Field changed = *this;
    change(changed.rules);
    return changed;
  }
};

template <typename Owner, typename Member>
constexpr Field<Owner, Member> field(std::string_view key, Member Owner::* member, std::string_view doc) {
  return {key, member, doc};
}

template <typename... Fields>
struct Description {
  std::string_view name;  // of the schema's definition: "block"
  std::string_view doc;
  std::tuple<Fields...> list;

  static constexpr std::size_t size = sizeof...(Fields);
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

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;

}  // namespace assay
