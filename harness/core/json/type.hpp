// How values of a type lie in memory and which JSON they are, without the type itself: so that one function encodes,
// decodes or makes the schema of all types. type_of<T> is made by the compiler. The types are those that fields.hpp
// lists.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/core/json/reported.hpp"
#include "harness/core/words.hpp"

namespace assay {

template <typename T>
struct Of {};

struct Type;
struct Description;
class Decoder;
class JsonPlace;

// In all of these, a `const void*` is the address of a value of the type that this describes.
struct BooleanType {};
struct IntegerType {
  std::size_t bytes;
  bool is_signed;
};
using Integer = std::variant<std::int64_t, std::uint64_t>;
Integer integer_at(const IntegerType& type, const void* value);
// False if it does not fit into the type; then `value` stays.
bool set_integer(const IntegerType& type, Integer number, void* value);

struct DoubleType {};
struct FloatType {};
struct TextType {};
struct ViewType {};  // std::string_view: is written, but not read
struct PathType {};
struct AnyType {};  // nlohmann::json
struct WordType {
  std::span<const std::string_view> words;
  std::string_view (*get)(const void* value);
  bool (*set)(void* value, std::string_view word);  // false: there is no such word
};
struct OptionalType {
  const Type* inner;
  const void* (*get)(const void* value);  // nullptr: it is absent, or not known
  void* (*emplace)(void* value);
  void (*set_null)(void* value);
  bool (*is_absent)(const void* value);
};
struct ListType {
  const Type* inner;
  std::size_t (*size)(const void* list);
  const void* (*at)(const void* list, std::size_t i);
  void* (*append)(void* list);
  void (*clear)(void* list, std::size_t reserved);
};
struct MapType {
  using Visit = std::function<void(const std::string& key, const void* value)>;
  const Type* inner;
  bool (*empty)(const void* map);
  void (*each)(const void* map, const Visit& visit);
  void* (*slot)(void* map, std::string_view key);  // nullptr: the key is not a whole number, as it should be
  void (*clear)(void* map);
};
struct ObjectType {  // a described struct
  const Description& (*description)();
  const void* (*initial)();  // a default-constructed struct
};
struct OwnType {  // a type with functions of its own
  nlohmann::json (*encode)(const void* value);
  nlohmann::json (*schema)();
  void (*decode)(const Decoder& decoder, const nlohmann::json& json, const JsonPlace& place, void* out);
};

struct Type {
  std::variant<BooleanType, IntegerType, DoubleType, FloatType, TextType, ViewType, PathType, AnyType,
               WordType, OptionalType, ListType, MapType, ObjectType, OwnType>
      kind;

  template <typename Kind>
  constexpr const Kind* as() const {
    return std::get_if<Kind>(&kind);
  }
  // A double, or an optional one.
  bool is_double() const;
};

template <typename T>
concept Described = requires { describe(Of<T>{}); };

template <typename T>
struct TypeOf {
  static const Type value;
};
template <typename T>
inline constexpr const Type& type_of = TypeOf<T>::value;

// type_of for each kind of type.
namespace type_maker {

template <typename T>
const T& as(const void* value) {
  return *static_cast<const T*>(value);
}
template <typename T>
T& as(void* value) {
  return *static_cast<T*>(value);
}

constexpr Type make(Of<bool>) { return {BooleanType{}}; }
constexpr Type make(Of<double>) { return {DoubleType{}}; }
constexpr Type make(Of<float>) { return {FloatType{}}; }
constexpr Type make(Of<std::string>) { return {TextType{}}; }
constexpr Type make(Of<std::string_view>) { return {ViewType{}}; }
constexpr Type make(Of<std::filesystem::path>) { return {PathType{}}; }
constexpr Type make(Of<nlohmann::json>) { return {AnyType{}}; }
template <std::integral T>
  requires(sizeof(T) == 4 || sizeof(T) == 8)
constexpr Type make(Of<T>) {
  return {IntegerType{sizeof(T), std::signed_integral<T>}};
}
template <Worded E>
constexpr Type make(Of<E>) {
  return {WordType{.words = word_texts<E>,
                   .get = [](const void* value) { return to_string(as<E>(value)); },
                   .set =
                       [](void* value, std::string_view word) {
                         const auto found = from_word<E>(word);
                         if (found) as<E>(value) = *found;
                         return found.has_value();
                       }}};
}
template <typename T>
constexpr Type make(Of<std::optional<T>>) {
  using Optional = std::optional<T>;
  return {OptionalType{.inner = &type_of<T>,
                       .get = [](const void* value) -> const void* {
                         const auto& optional = as<Optional>(value);
                         return optional ? &*optional : nullptr;
                       },
                       .emplace = [](void* value) -> void* { return &as<Optional>(value).emplace(); },
                       .set_null = [](void* value) { as<Optional>(value).reset(); },
                       .is_absent = [](const void* value) { return !as<Optional>(value).has_value(); }}};
}
template <typename T>
constexpr Type make(Of<Reported<T>>) {
  using Value = Reported<T>;
  return {OptionalType{.inner = &type_of<T>,
                       .get = [](const void* value) -> const void* {
                         const auto& reported = as<Value>(value);
                         return reported ? &*reported : nullptr;
                       },
                       .emplace = [](void* value) -> void* { return &as<Value>(value).emplace(); },
                       .set_null = [](void* value) { as<Value>(value).set_unknown(); },
                       .is_absent = [](const void* value) { return !as<Value>(value).is_asked(); }}};
}
template <typename T>
constexpr Type make(Of<std::vector<T>>) {
  using List = std::vector<T>;
  return {ListType{.inner = &type_of<T>,
                   .size = [](const void* list) { return as<List>(list).size(); },
                   .at = [](const void* list, std::size_t i) -> const void* { return &as<List>(list)[i]; },
                   .append = [](void* list) -> void* { return &as<List>(list).emplace_back(); },
                   .clear =
                       [](void* list, std::size_t reserved) {
                         as<List>(list).clear();
                         as<List>(list).reserve(reserved);
                       }}};
}
template <typename K, typename T, typename Order>
constexpr Type make(Of<std::map<K, T, Order>>) {
  using Map = std::map<K, T, Order>;
  return {MapType{.inner = &type_of<T>,
                  .empty = [](const void* map) { return as<Map>(map).empty(); },
                  .each =
                      [](const void* map, const MapType::Visit& visit) {
                        for (const auto& [key, value] : as<Map>(map)) {
                          if constexpr (std::integral<K>)
                            visit(std::to_string(key), &value);
                          else
                            visit(key, &value);
                        }
                      },
                  .slot = [](void* map, std::string_view key) -> void* {
                    if constexpr (std::integral<K>) {
                      K number{};
                      const char* const end = key.data() + key.size();
                      const auto [stop, error] = std::from_chars(key.data(), end, number);
                      return error == std::errc{} && stop == end ? &as<Map>(map)[number] : nullptr;
                    } else {
                      return &as<Map>(map)[K(key)];
                    }
                  },
                  .clear = [](void* map) { as<Map>(map).clear(); }}};
}
template <Described T>
constexpr Type make(Of<T>) {
  return {ObjectType{.description = []() -> const Description& {
                       static const auto description = describe(Of<T>{});
                       return description;
                     },
                     .initial = []() -> const void* {
                       static const T initial{};
                       return &initial;
                     }}};
}
template <typename T>
  requires requires { schema_of(Of<T>{}); }
constexpr Type make(Of<T>) {
  return {OwnType{.encode = [](const void* value) { return encode(as<T>(value)); },
                  .schema = [] { return schema_of(Of<T>{}); },
                  .decode = [](const Decoder& decoder, const nlohmann::json& json, const JsonPlace& place,
                               void* out) { decode_with(decoder, json, place, as<T>(out)); }}};
}

}  // namespace type_maker

template <typename T>
const Type TypeOf<T>::value = type_maker::make(Of<T>{});

}  // namespace assay
