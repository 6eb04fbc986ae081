// Whether this run has time for the tests that take minutes: scripts/test --nightly sets ASSAY_NIGHTLY.
#pragma once

#include <cstdlib>

namespace assay {

inline bool nightly() { return std::getenv("ASSAY_NIGHTLY") != nullptr; }

}  // namespace assay
