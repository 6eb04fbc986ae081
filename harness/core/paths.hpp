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
// $HOME/.cache/assay; made with mode 0700 where it is missing. An empty variable counts as not set. Where there is none
// or it is not to be trusted (a symbolic link, another user's, writable by everybody), a new folder for this process
// alone, which is removed when it ends: what lies there decides what is computed and loaded.
std::filesystem::path cache_folder();
// Why cache_folder() does not outlive this process, with the remedy; empty: it does.
std::string why_nothing_is_cached();

// $TMPDIR, else /tmp, as an absolute path. Throws IoError where it is no folder.
std::filesystem::path temporary_folder();

// Where programs and data of this user are: $XDG_DATA_HOME, else $HOME/.local/share. Nothing where neither is set.
std::optional<std::filesystem::path> data_home();

}  // namespace assay
