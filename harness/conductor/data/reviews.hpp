// What the two forms of the IMDB reviews share.
#pragma once

#include "harness/conductor/data/format.hpp"

namespace assay {

// All that the publisher has for training is the split "train". Of what he holds out, which is ordered by
// class, samples 0, 2, 4 … are "validation" and 1, 3, 5 … "test", so that all three are apart.
LoadedDataset reviews(LoadedArrays train, const LoadedArrays& held_out);

}  // namespace assay
