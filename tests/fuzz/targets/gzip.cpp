// A file that may be compressed, as a whole and as an IDX file whose header says how long it is.
#include "harness/conductor/data/sample_files.hpp"
#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_gzip {
namespace {

constexpr std::uint64_t limit = 1 << 16;

void read_as_idx(const std::filesystem::path& file) {
  const IdxArray array = read_idx(file, limit);
  require(array.bytes.size() <= limit, "no more elements than the set has");
}

const Registration here("gzip", [](Input input) {
  const std::filesystem::path& file = file_with(input);
  try {
    read_as_idx(file);
  } catch (const Error&) {
  }
  const std::vector<std::byte> content = read_gzip_or_plain(file, limit);
  require(content.size() <= limit, "no more bytes than the limit");
  const std::filesystem::path again = scratch() / "again.gz";
  write_gzip(again, content);
  require(read_gzip_or_plain(again, limit) == content, "what is compressed again is the same");
});

}  // namespace
}  // namespace assay::fuzz::of_gzip
