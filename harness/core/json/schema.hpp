// The JSON schema (draft 7) of a struct, from its description (fields.hpp).
#pragma once

#include <nlohmann/json.hpp>

#include "harness/core/json/fields.hpp"

namespace assay {

// Makes the schemas of types. A described struct goes into `definitions()` once and is referred to by name.
class SchemaMaker {
 public:
  template <typename T>
  nlohmann::json of() {
    return of(type_of<T>);
  }
  nlohmann::json of(const Type& type);
  const nlohmann::json& definitions() const { return definitions_; }

  // The object's full schema, which is not added to the definitions: for the root of a document.
  template <Described T>
  nlohmann::json object() {
    return object(describe(Of<T>{}));
  }
  nlohmann::json object(const Description& description);

  static void add_rules(nlohmann::json& schema, const FieldRules& rules);

 private:
  struct Maker;

  nlohmann::json columns(const Description& description);
  nlohmann::json of_field(const Field& field);
  nlohmann::json of_column(const Field& field);

  nlohmann::json definitions_ = nlohmann::json::object();
};

}  // namespace assay
