#include "harness/report/strict_document.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/io/gzip.hpp"

namespace assay {
namespace {

namespace dom = simdjson::dom;

// With few keys compares all pairs, with many sorts them and compares neighbours.
bool has_twins(const dom::object& object, std::vector<std::string_view>& keys) {
  constexpr std::size_t few = 24;
  keys.clear();
  for (const dom::key_value_pair field : object) keys.push_back(field.key);
  if (keys.size() > few) {
    std::sort(keys.begin(), keys.end());
    return std::adjacent_find(keys.begin(), keys.end()) != keys.end();
  }
  for (std::size_t i = 1; i < keys.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (keys[i] == keys[j]) return true;
  return false;
}

bool is_strict(const dom::element& element, std::size_t depth, std::vector<std::string_view>& keys) {
  if (element.is_array()) {
    if (depth == 0) return false;
    for (const dom::element item : dom::array(element))
      if (!is_strict(item, depth - 1, keys)) return false;
  } else if (element.is_object()) {
    const dom::object object(element);
    if (depth == 0 || has_twins(object, keys)) return false;
    for (const dom::key_value_pair field : object)
      if (!is_strict(field.value, depth - 1, keys)) return false;
  }
  return true;
}

}  // namespace

StrictDocument::StrictDocument(std::string text, std::string_view where, JsonLimits limits)
    : where_(where), document_(std::make_unique<dom::document>()) {
  if (text.size() > limits.bytes)
    throw JsonError(fmt::format("{}: {} bytes, above the limit of {}", where, text.size(), limits.bytes));
  const std::size_t size = text.size();
  text.reserve(size + simdjson::SIMDJSON_PADDING);
  dom::parser parser;
  const auto result = parser.parse_into_document(*document_, text.data(), size, false);
  std::vector<std::string_view> keys;
  if (result.error() == simdjson::SUCCESS) {
    root_ = result.value_unsafe();
    if (is_strict(root_, limits.depth, keys)) return;
  }
  // The slow parser gives the error and its position.
  parse_strict_json(text, where, limits);
  throw JsonError(fmt::format("{}: not valid JSON: {}", where, simdjson::error_message(result.error())));
}

StrictDocument read_strict_document(const std::filesystem::path& file, JsonLimits limits) {
  std::string text = read_json_text(file, limits);
  const auto bytes = std::as_bytes(std::span(text));
  if (!is_gzip(bytes)) return {std::move(text), file.string(), limits};
  try {
    const std::vector<std::byte> content = inflated(bytes, file, limits.bytes);
    return {std::string(reinterpret_cast<const char*>(content.data()), content.size()), file.string(),
            limits};
  } catch (const IoError& error) {
    throw JsonError(error.what());
  }
}

nlohmann::json to_json(const dom::element& element) {
  switch (element.type()) {
    case dom::element_type::ARRAY: {
      nlohmann::json list = nlohmann::json::array();
      for (const dom::element item : dom::array(element)) list.push_back(to_json(item));
      return list;
    }
    case dom::element_type::OBJECT: {
      nlohmann::json object = nlohmann::json::object();
      for (const dom::key_value_pair field : dom::object(element))
        object[std::string(field.key)] = to_json(field.value);
      return object;
    }
    case dom::element_type::INT64: {
      // A positive integer is unsigned, like in the other parser.
      const std::int64_t value = element.get_int64().value_unsafe();
      return value < 0 ? nlohmann::json(value) : nlohmann::json(static_cast<std::uint64_t>(value));
    }
    case dom::element_type::UINT64:
      return element.get_uint64().value_unsafe();
    case dom::element_type::DOUBLE:
      return element.get_double().value_unsafe();
    case dom::element_type::STRING:
      return std::string(element.get_string().value_unsafe());
    case dom::element_type::BOOL:
      return element.get_bool().value_unsafe();
    case dom::element_type::NULL_VALUE:
      break;
  }
  return nullptr;
}

}  // namespace assay
