#include "harness/conductor/data/pickled_lists.hpp"
#include "tests/fuzz/fuzz.hpp"

ASSAY_FUZZ(assay::read_pickled_lists(bytes, path);)
