#include "harness/conductor/data/sample_files.hpp"
#include "tests/fuzz/fuzz.hpp"

ASSAY_FUZZ(assay::parse_idx({bytes.begin(), bytes.end()}, path);)
