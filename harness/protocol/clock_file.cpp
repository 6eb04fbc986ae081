#include "harness/protocol/clock_file.hpp"

#include <nlohmann/json.hpp>

#include "harness/core/io/atomic_file.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"

namespace assay {

void write_clock_file(const std::filesystem::path& path, const ClockFile& file) {
  write_atomically(path, strict_json_text(encode(file)), false);
}

ClockFile read_clock_file(const std::filesystem::path& path) {
  return decoded<ClockFile>(read_strict_json(path), path.filename().string());
}

}  // namespace assay
