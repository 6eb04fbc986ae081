#include "harness/conductor/data/sample_files.hpp"
#include "tests/fuzz/fuzz.hpp"

ASSAY_FUZZ(assay::read_npy_labels(bytes, path);)
