// A JSON document that others wrote, parsed quickly and held compactly; the same strictness as
// strict_json.hpp.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <simdjson.h>
#include <nlohmann/json_fwd.hpp>

#include "harness/core/json/strict_json.hpp"

namespace assay {

class StrictDocument {
 public:
  // Throws JsonError saying where the fault is. `where` names the text in errors.
  StrictDocument(std::string text, std::string_view where, JsonLimits limits = {});

  // Borrows from this document, which has to outlive it (and may be moved meanwhile).
  simdjson::dom::element root() const { return root_; }
  const std::string& where() const { return where_; }

 private:
  std::string where_;
  std::unique_ptr<simdjson::dom::document> document_;
  simdjson::dom::element root_;
};

// Throws JsonError also where the file is missing, unreadable, not a file or too large.
StrictDocument read_strict_document(const std::filesystem::path& file, JsonLimits limits = {});

// A part of it as the document type that the rest of the program writes and keeps.
nlohmann::json to_json(const simdjson::dom::element& element);

}  // namespace assay
