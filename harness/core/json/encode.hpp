// Struct -> JSON, by its description (fields.hpp). Numbers that are not finite stay as they are: strict_json_text
// writes them as null with a note, columns hold them as "nan", "inf" and "-inf".
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/json/fields.hpp"
#include "harness/core/words.hpp"

namespace assay {

inline nlohmann::json encode(const nlohmann::json& value) { return value; }
inline nlohmann::json encode(const std::string& value) { return value; }
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

// In a column a note next to the number has no place, so the number itself is the word.
inline nlohmann::json in_column(nlohmann::json value) {
  if (!value.is_number_float() || std::isfinite(value.get<double>())) return value;
  const double number = value.get<double>();
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

template <Described T>
nlohmann::json encode_columns(const std::vector<T>& list) {
  nlohmann::json out = nlohmann::json::object();
  describe(Of<T>{}).each([&](const auto& field, std::size_t) {
    nlohmann::json column = nlohmann::json::array();
    bool all_default = true;
    const T initial{};
    for (const T& item : list) {
      column.push_back(in_column(encode(item.*field.member)));
      all_default = all_default && column.back() == in_column(encode(initial.*field.member));
    }
    if (!(field.rules.left_out_by_default && all_default)) out[field.key] = std::move(column);
  });
  return out;
}

template <Described T>
nlohmann::json encode(const T& value) {
  nlohmann::json out = nlohmann::json::object();
  describe(Of<T>{}).each([&](const auto& field, std::size_t) {
    const auto& member = value.*field.member;
    nlohmann::json encoded;
    if constexpr (requires { encode_columns(member); })
      encoded = field.rules.columns ? encode_columns(member) : encode(member);
    else
      encoded = encode(member);
    if (field.rules.left_out_by_default && encoded == encode(T{}.*field.member)) return;
    out[field.key] = std::move(encoded);
  });
  return out;
}

}  // namespace assay
