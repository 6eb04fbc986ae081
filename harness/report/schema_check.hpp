// Whether a document satisfies a JSON Schema, quickly; what is wrong says schema.hpp.
#pragma once

#include <memory>
#include <string_view>

#include <simdjson.h>
#include <nlohmann/json_fwd.hpp>

namespace assay {

// Compiled from a schema of draft 7 that uses the keywords which the report's schema does: type, properties,
// required, additionalProperties, items, uniqueItems, minimum, maximum, minLength, enum, const, if and then,
// and $ref into definitions.
class SchemaCheck {
 public:
  // Throws std::logic_error for a keyword that it does not know: a check that leaves one out would be none.
  explicit SchemaCheck(const nlohmann::json& schema);
  ~SchemaCheck();
  SchemaCheck(const SchemaCheck&) = delete;
  SchemaCheck& operator=(const SchemaCheck&) = delete;

  bool holds(const simdjson::dom::element& document) const;

 private:
  struct Node;
  class Compiler;
  std::unique_ptr<Compiler> compiler_;
  const Node* root_ = nullptr;
};

}  // namespace assay
