// A JSON document from another program, parsed quickly and stored compactly; as strict as strict_json.hpp.
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
  // Throws JsonError with the place of the error. `where` names the text in errors.
  StrictDocument(std::string text, std::string_view where, JsonLimits limits = {});

  // Borrows from this document, which must outlive it (but may be moved).
  simdjson::dom::element root() const { return root_; }
  const std::string& where() const { return where_; }

 private:
  std::string where_;
  std::unique_ptr<simdjson::dom::document> document_;
  simdjson::dom::element root_;
};

// The file may be compressed by gzip, whatever its name. Also throws JsonError if it is missing, unreadable,
// not a file, too large, or damaged.
StrictDocument read_strict_document(const std::filesystem::path& file, JsonLimits limits = {});

// Converts a part of it to the JSON type that the rest of the program writes and keeps.
nlohmann::json to_json(const simdjson::dom::element& element);

}  // namespace assay
