// The decoder's node type (core/json/decode.hpp) for documents that simdjson parsed.
#pragma once

#include <cstdint>
#include <string_view>

#include <simdjson.h>

#include "harness/core/json/decode.hpp"
#include "harness/report/strict_document.hpp"

namespace assay {

// Borrows the document.
class DocumentNode {
 public:
  explicit DocumentNode(simdjson::dom::element value) : value_(value) {}

  bool is_null() const { return value_.is_null(); }
  bool is_array() const { return value_.is_array(); }
  bool is_object() const { return value_.is_object(); }
  const char* type_name() const {
    switch (value_.type()) {
      case simdjson::dom::element_type::ARRAY:
        return "array";
      case simdjson::dom::element_type::OBJECT:
        return "object";
      case simdjson::dom::element_type::STRING:
        return "string";
      case simdjson::dom::element_type::BOOL:
        return "boolean";
      case simdjson::dom::element_type::NULL_VALUE:
        return "null";
      default:
        return "number";
    }
  }
  std::size_t size() const {
    constexpr std::size_t max_counted = 0xFFFFFF;  // simdjson does not count further
    if (is_object()) return simdjson::dom::object(value_).size();
    const simdjson::dom::array list(value_);
    if (list.size() < max_counted) return list.size();
    std::size_t count = 0;
    for ([[maybe_unused]] const simdjson::dom::element item : list) ++count;
    return count;
  }
  bool get(bool& out) const { return value_.get(out) == simdjson::SUCCESS; }
  bool get(double& out) const { return value_.get(out) == simdjson::SUCCESS; }
  bool get(std::string_view& out) const { return value_.get(out) == simdjson::SUCCESS; }
  template <typename T>
  IntegerFault get_integer(T& out) const {
    if (value_.is<std::int64_t>()) return fit_integer(value_.get_int64().value_unsafe(), out);
    if (value_.is<std::uint64_t>()) return fit_integer(value_.get_uint64().value_unsafe(), out);
    return IntegerFault::not_an_integer;
  }
  template <typename Visit>
  void each_item(const Visit& visit) const {
    for (const simdjson::dom::element item : simdjson::dom::array(value_)) visit(DocumentNode(item));
  }
  template <typename Visit>
  void each_member(const Visit& visit) const {
    for (const simdjson::dom::key_value_pair member : simdjson::dom::object(value_))
      visit(member.key, DocumentNode(member.value));
  }
  nlohmann::json copy() const { return to_json(value_); }

 private:
  simdjson::dom::element value_;
};

}  // namespace assay
