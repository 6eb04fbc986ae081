#include "harness/conductor/data/sample_files.hpp"
#include "tests/fuzz/fuzz.hpp"

ASSAY_FUZZ(
    std::vector<std::byte> images; std::vector<std::int32_t> labels;
    if (!bytes.empty() && bytes[0] == std::byte{'n'}) {
      assay::parse_cifar10_names({reinterpret_cast<const char*>(bytes.data()) + 1, bytes.size() - 1}, path);
    } else {
      assay::parse_cifar10(bytes, path, static_cast<std::int64_t>(bytes.size() / 3073), images, labels);
    })
