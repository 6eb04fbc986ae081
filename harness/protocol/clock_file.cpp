#include "harness/protocol/clock_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"

namespace assay {

void write_clock_file(const std::filesystem::path& path, const ClockFile& file) {
  write_atomically(path, strict_json_text(encode(file)), false);
}

ClockFile read_clock_file(const std::filesystem::path& path) {
  constexpr std::uint64_t max_bytes = std::uint64_t{32} << 20;  // about 100,000 blocks
  const std::string where = path.filename().string();
  std::vector<std::byte> bytes;
  try {
    bytes = read_foreign_file(path, max_bytes);
  } catch (const IoError& error) {
    throw JsonError(error.what());
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto clock = decoded<ClockFile>(parse_strict_json(text, where), where);
  if (clock.schema != ClockFile{}.schema)
    throw JsonError(fmt::format("{}: the schema is '{}', not '{}'", where, clock.schema.substr(0, 80),
                                ClockFile{}.schema));
  return clock;
}

}  // namespace assay
