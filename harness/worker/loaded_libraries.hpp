// The shared objects that this process has loaded, as the dynamic linker tells.
#pragma once

#include <vector>

#include "harness/worker/backend.hpp"

namespace assay {

// The program itself first, then each shared object: its name without ".so" and what follows, its path, and
// as its version "build-id <hex>", which the linker gave it; empty where it has none.
std::vector<Library> loaded_libraries();

// What a backend says of its own libraries, followed by those that it did not name.
std::vector<Library> with_loaded_libraries(std::vector<Library> named);

}  // namespace assay
