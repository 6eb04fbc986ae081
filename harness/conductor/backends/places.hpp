// Where the program finds what it did not build in: backends, configs, environments.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// The folder of the running executable. In a build folder this is <source>/build/<preset>.
std::filesystem::path executable_folder();

// Folders whose subfolders are backends, those added by $ASSAY_BACKENDS before those of the program: <exe
// folder>/backends, <exe folder>/../libexec/assay/backends.
std::vector<std::filesystem::path> backend_folders();
// $ASSAY_CONFIGS, <exe folder>/configs, <exe folder>/../share/assay/configs, <exe folder>/../../configs (a
// build in its tree).
std::vector<std::filesystem::path> config_folders();
// A framework's virtual environment:
// ${ASSAY_ENVIRONMENTS:-${XDG_DATA_HOME:-$HOME/.local/share}/assay/environments}/<framework>.
std::filesystem::path environment_of(std::string_view framework);
// The batch library for workers that load it themselves: <exe folder>/libassay_batch.so, or in ../lib once
// installed. The first where neither is there.
std::filesystem::path batch_library();

}  // namespace assay
