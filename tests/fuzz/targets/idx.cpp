#include "harness/conductor/data/sample_files.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_idx {
namespace {

const Registration here("idx", [](Input input) {
  const IdxArray array = parse_idx({input.begin(), input.end()}, "fuzz");
  require(array.bytes.size() < input.size(), "elements are bytes of the file");
  require(element_count(array.shape) == static_cast<std::int64_t>(array.bytes.size()),
          "as many elements as the shape says");
});

}  // namespace
}  // namespace assay::fuzz::of_idx
