// The shared objects that this process has loaded, as the dynamic linker reports them.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/worker/backend.hpp"

namespace assay {

// First the program itself, then each shared object: its name up to ".so", its path, and as its version
// "build-id <hex>", which the linker wrote; empty if it has none.
std::vector<Library> loaded_libraries();

// Bytes of the files of all of them; a file that is gone counts as nothing.
std::int64_t loaded_bytes();

// The libraries that a backend names, followed by the other loaded ones.
std::vector<Library> with_loaded_libraries(std::vector<Library> named);

}  // namespace assay
