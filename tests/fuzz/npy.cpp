#include "harness/conductor/data/npy_labels.hpp"
#include "tests/fuzz/fuzz.hpp"

ASSAY_FUZZ(assay::read_npy_labels(bytes, path);)
