// The environment of this process, and the folders that it names.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace assay {

// The value of an environment variable, which may be empty. nullopt if it is not set.
std::optional<std::string> environment_variable(const char* name);
// The same, with an empty text if it is not set.
std::string environment_text(const char* name);
// The parts of a list with colons. Empty parts are left out.
std::vector<std::filesystem::path> environment_list(const char* name);

// The folder for everything that may be deleted at any time: $ASSAY_CACHE, else $XDG_CACHE_HOME/assay, else
// $HOME/.cache/assay, else assay-<user id> in the temporary folder. An empty variable counts as not set.
std::filesystem::path cache_folder();

}  // namespace assay
