// Frameworks that Assay can install: each has a backend with pinned requirements, and a virtual environment.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/conductor/backends/backends.hpp"

namespace assay {

struct Framework {
  std::string name;
  std::filesystem::path requirements;  // for pip, with hashes
  std::filesystem::path packages;      // of the system, one per line; may be missing
  bool only_for_gpus = false;          // without a GPU it is of no use
};

// In the order of the backends: those with a requirements.txt or requirements-cuda.txt next to their backend.json; then
// "import", the environment of `assay import`. `cuda`: with the latter if there are both.
std::vector<Framework> installable_frameworks(const BackendRegistry& registry, bool cuda = false);
// The pins without their hashes: "torch==2.15.0". Throws IoError.
std::vector<std::string> pins_of(const Framework& framework);
// The packages of the system that it needs. Throws IoError.
std::vector<std::string> packages_of(const Framework& framework);
// Whether the environment was made from these requirements, as backends/python/make_environment.py notes. Throws IoError.
bool is_installed(const Framework& framework, const std::filesystem::path& environment);

}  // namespace assay
