// Reads the JSON files of a cell folder.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"

namespace assay {

// Returns read(json). Throws CellError naming `reader` and the file if the file cannot be read or is not
// JSON, or if `read` throws Error or one of nlohmann's errors for a field.
template <typename Read>
auto read_cell_json(std::string_view reader, const std::filesystem::path& file, Read read) {
  const std::string who = "[" + std::string(reader) + "] ";
  std::ifstream stream(file);
  if (!stream) throw CellError(who + "cannot read " + file.string() + ": is this a cell folder?");
  try {
    return read(nlohmann::json::parse(stream));
  } catch (const nlohmann::json::exception& error) {
    throw CellError(who + file.string() + ": " + error.what());
  } catch (const Error& error) {
    throw CellError(who + file.string() + ": " + error.what());
  }
}

}  // namespace assay
