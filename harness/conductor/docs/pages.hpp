// The pages of docs/reference with blocks that `assay docs` writes, except the page of the command line.
#pragma once

#include <vector>

#include "harness/conductor/docs/page.hpp"

namespace assay {

std::vector<Page> reference_pages();

}  // namespace assay
