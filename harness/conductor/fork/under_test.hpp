// Which of the libraries of a worker are the code under test.
#pragma once

#include <vector>

#include "harness/conductor/backends/backends.hpp"
#include "harness/protocol/message.hpp"

namespace assay {

// Marks the libraries that belong to the code under test: files in the folder of the backend (but not those of Python
// packages that are installed there), the programs that its command names, and the harness's own libraries.
void mark_under_test(std::vector<protocol::Library>& libraries, const BackendDescription& backend);

}  // namespace assay
