// Struct -> JSON, by its description (fields.hpp). Numbers that are not finite stay as they are: strict_json_text
// writes them as null with a note, columns hold them as "nan", "inf" and "-inf".
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "harness/core/json/fields.hpp"

namespace assay {

nlohmann::json encode_as(const Type& type, const void* value);
// The list is a ListType of described structs.
nlohmann::json encode_columns_as(const Type& type, const void* list);

template <typename T>
nlohmann::json encode(const T& value) {
  return encode_as(type_of<T>, &value);
}
template <Described T>
nlohmann::json encode_columns(const std::vector<T>& list) {
  return encode_columns_as(type_of<std::vector<T>>, &list);
}

}  // namespace assay
