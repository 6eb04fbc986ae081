// request.json as the worker reads it: the cell, and how to run it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "harness/worker/backend.hpp"
#include "harness/worker/checker.hpp"

namespace assay {

struct Request {
  CompileOptions options;
  std::int64_t batch = 0;
  // Whether the fork times blocks of steps: then everything lazy is done while compiling.
  bool steps = false;
  std::optional<OracleOptions> oracle;  // of an oracle's cell
};

// Fields that it does not know it ignores. Throws CellError with the path and the field that is
// missing or of another type.
Request read_request(const std::filesystem::path& file);

}  // namespace assay
