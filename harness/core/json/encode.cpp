#include "harness/core/json/encode.hpp"

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

using Json = nlohmann::json;
using type_maker::as;

bool is_default(const Type& type, const void* value, const void* initial) {
  if (const auto* optional = type.as<OptionalType>())
    return optional->is_absent(value) && optional->is_absent(initial);
  if (const auto* list = type.as<ListType>()) return list->size(value) == 0 && list->size(initial) == 0;
  if (const auto* map = type.as<MapType>()) return map->empty(value) && map->empty(initial);
  if (type.as<AnyType>()) return as<Json>(value).empty() && as<Json>(initial).empty();
  return encode_as(type, value) == encode_as(type, initial);
}

Json encode_object(const ObjectType& type, const void* value) {
  Json out = Json::object();
  for (const Field& field : type.description().list) {
    if (field.written && !field.written(value)) continue;
    if (field.make) {
      field.make(value, [&](const void* made) { out[field.key] = encode_as(*field.type, made); });
      continue;
    }
    const void* member = field.of(value);
    if (field.rules.left_out_by_default && is_default(*field.type, member, field.of(type.initial())))
      continue;
    out[field.key] =
        field.rules.columns ? encode_columns_as(*field.type, member) : encode_as(*field.type, member);
  }
  return out;
}

// A column has no place for a note, so the word itself replaces the number.
Json in_column(Json value) {
  if (!value.is_number_float() || std::isfinite(value.get<double>())) return value;
  const double number = value.get<double>();
  return not_finite_words[std::isnan(number) ? 0 : number > 0 ? 1 : 2];
}

struct Encoder {
  const void* value;

  Json operator()(const BooleanType&) const { return as<bool>(value); }
  Json operator()(const IntegerType& type) const {
    return std::visit([](auto number) { return Json(number); }, integer_at(type, value));
  }
  Json operator()(const DoubleType&) const { return as<double>(value); }
  Json operator()(const FloatType&) const { return static_cast<double>(as<float>(value)); }
  Json operator()(const TextType&) const { return as<std::string>(value); }
  Json operator()(const ViewType&) const { return as<std::string_view>(value); }
  Json operator()(const PathType&) const { return as<std::filesystem::path>(value).string(); }
  Json operator()(const AnyType&) const { return as<Json>(value); }
  Json operator()(const WordType& type) const { return type.get(value); }
  Json operator()(const OptionalType& type) const {
    const void* inner = type.get(value);
    return inner ? encode_as(*type.inner, inner) : Json(nullptr);
  }
  Json operator()(const ListType& type) const {
    Json out = Json::array();
    for (std::size_t i = 0; i < type.size(value); ++i)
      out.push_back(encode_as(*type.inner, type.at(value, i)));
    return out;
  }
  Json operator()(const MapType& type) const {
    Json out = Json::object();
    type.each(value,
              [&](const std::string& key, const void* item) { out[key] = encode_as(*type.inner, item); });
    return out;
  }
  Json operator()(const ObjectType& type) const { return encode_object(type, value); }
  Json operator()(const OwnType& type) const { return type.encode(value); }
};

}  // namespace

Json encode_as(const Type& type, const void* value) { return std::visit(Encoder{value}, type.kind); }

Json encode_columns_as(const Type& type, const void* rows) {
  const ListType& list = *type.as<ListType>();
  const ObjectType& object = *list.inner->as<ObjectType>();
  const std::size_t size = list.size(rows);
  Json out = Json::object();
  if (size == 0) return out;
  const auto column_of = [&](const Field& field) {
    Json column = Json::array();
    for (std::size_t i = 0; i < size; ++i)
      column.push_back(in_column(encode_as(*field.type, field.of(list.at(rows, i)))));
    return column;
  };
  const auto all_default = [&](const Field& field) {
    for (std::size_t i = 0; i < size; ++i)
      if (!is_default(*field.type, field.of(list.at(rows, i)), field.of(object.initial()))) return false;
    return true;
  };
  bool counted = false;  // a column is a list and so gives the number of rows
  const Description& description = object.description();
  for (const Field& field : description.list) {
    if ((field.rules.left_out_by_default || field.rules.left_out_of_columns) && all_default(field)) continue;
    Json column = column_of(field);
    const auto is_first = [&](const Json& entry) { return entry == column.front(); };
    const auto is_list = [](const Json& entry) { return entry.is_array(); };
    const bool same =
        size > 1 && std::ranges::none_of(column, is_list) && std::ranges::all_of(column, is_first);
    counted = counted || !same;
    out[field.key] = same ? Json(column.front()) : std::move(column);
  }
  if (!counted) out[description.list.front().key] = column_of(description.list.front());
  return out;
}

}  // namespace assay
