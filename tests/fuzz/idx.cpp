#include "harness/conductor/data/idx.hpp"
#include "tests/fuzz/fuzz.hpp"

ASSAY_FUZZ(assay::parse_idx({bytes.begin(), bytes.end()}, path);)
