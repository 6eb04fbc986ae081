// Struct -> JSON, by its description (fields.hpp). Numbers that are not finite stay as they are: strict_json_text
// writes them as null with a note, columns hold them as "nan", "inf" and "-inf".
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/json/fields.hpp"
#include "harness/core/words.hpp"

namespace assay {

inline nlohmann::json encode(const nlohmann::json& value) { return value; }
inline nlohmann::json encode(const std::string& value) { return value; }
inline nlohmann::json encode(const std::filesystem::path& value) { return value.string(); }
template <typename T>
  requires std::is_arithmetic_v<T>
nlohmann::json encode(T value) {
  return value;
}
template <Worded E>
nlohmann::json encode(E value) {
  return to_string(value);
}
template <Described T>
nlohmann::json encode(const T& value);
template <typename T>
nlohmann::json encode(const std::optional<T>& value);
template <typename T>
nlohmann::json encode(const std::vector<T>& list);
template <typename T, typename Order>
nlohmann::json encode(const std::map<std::string, T, Order>& map);
template <std::integral K, typename T>
nlohmann::json encode(const std::map<K, T>& map);

template <typename T>
nlohmann::json encode(const std::optional<T>& value) {
  return value ? encode(*value) : nlohmann::json(nullptr);
}

template <typename T>
nlohmann::json encode(const std::vector<T>& list) {
  nlohmann::json out = nlohmann::json::array();
  for (const T& item : list) out.push_back(encode(item));
  return out;
}

template <typename T, typename Order>
nlohmann::json encode(const std::map<std::string, T, Order>& map) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [key, item] : map) out[key] = encode(item);
  return out;
}

template <std::integral K, typename T>
nlohmann::json encode(const std::map<K, T>& map) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [key, item] : map) out[std::to_string(key)] = encode(item);
  return out;
}

// A column has no place for a note, so the word itself replaces the number.
inline nlohmann::json in_column(nlohmann::json value) {
  if (!value.is_number_float() || std::isfinite(value.get<double>())) return value;
  const double number = value.get<double>();
  return not_finite_words[std::isnan(number) ? 0 : number > 0 ? 1 : 2];
}

template <typename T>
bool is_default(const T& value, const T& initial) {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::same_as<T, std::string>)
    return value == initial;
  else if constexpr (is_optional<T>)
    return !value && !initial;
  else if constexpr (requires { value.empty(); })
    return value.empty() && initial.empty();
  else
    return encode(value) == encode(initial);
}

template <Described T>
nlohmann::json encode_columns(const std::vector<T>& list) {
  nlohmann::json out = nlohmann::json::object();
  if (list.empty()) return out;
  [[maybe_unused]] const T initial{};
  bool counted = false;  // a column is a list and so gives the number of rows
  const auto column_of = [&](const auto& field) {
    nlohmann::json column = nlohmann::json::array();
    for (const T& item : list) column.push_back(in_column(encode(field.of(item))));
    return column;
  };
  constexpr auto description = describe(Of<T>{});
  description.each([&](const auto& field, std::size_t) {
    const auto is_initial = [&](const T& item) { return is_default(field.of(item), field.of(initial)); };
    const bool optional = field.rules.left_out_by_default || field.rules.left_out_of_columns;
    if (optional && std::all_of(list.begin(), list.end(), is_initial)) return;
    nlohmann::json column = column_of(field);
    const auto is_first = [&](const nlohmann::json& entry) { return entry == column.front(); };
    const bool list_like =
        std::any_of(column.begin(), column.end(), [](const auto& e) { return e.is_array(); });
    const bool same = list.size() > 1 && !list_like && std::all_of(column.begin(), column.end(), is_first);
    counted = counted || !same;
    out[field.key] = same ? nlohmann::json(column.front()) : std::move(column);
  });
  if (!counted) out[std::get<0>(description.list).key] = column_of(std::get<0>(description.list));
  return out;
}

template <Described T>
nlohmann::json encode(const T& value) {
  nlohmann::json out = nlohmann::json::object();
  [[maybe_unused]] static const T initial{};
  describe(Of<T>{}).each([&](const auto& field, std::size_t) {
    if (field.written && !field.written(value)) return;
    const auto& member = field.of(value);
    if (field.rules.left_out_by_default && is_default(member, field.of(initial))) return;
    if constexpr (requires { encode_columns(member); }) {
      if (field.rules.columns) {
        out[field.key] = encode_columns(member);
        return;
      }
    }
    out[field.key] = encode(member);
  });
  return out;
}

}  // namespace assay
