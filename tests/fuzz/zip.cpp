#include "harness/core/io/zip_file.hpp"
#include "tests/fuzz/fuzz.hpp"

ASSAY_FUZZ(assay::read_zip(bytes, path, 1 << 24);)
