// The environment of this process, and the folders that it names.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace assay {

// The value of an environment variable, which may be empty. nullopt if it is not set.
std::optional<std::string> environment_variable(const char* name);
// The same, with an empty text if it is not set.
std::string environment_text(const char* name);
// All that are set, by name. Of two with one name, the first.
std::map<std::string, std::string> environment_variables();
// The parts of a list that is separated by colons. Empty parts are left out.
std::vector<std::filesystem::path> environment_list(const char* name);

// The folder for everything that may be deleted at any time: $ASSAY_CACHE, else $XDG_CACHE_HOME/assay, else
// $HOME/.cache/assay. It is made with mode 0700 if it is missing. An empty variable counts as not set. If
// all three are missing, or the folder cannot be trusted (a symbolic link, another user's folder, writable by
// everybody), returns a new folder for only this process, which is removed when the process ends: its files
// decide what is computed and loaded.
std::filesystem::path cache_folder();
// Why cache_folder() does not outlive this process, with the remedy; empty if it does.
std::string why_nothing_is_cached();

// $TMPDIR, else /tmp, as an absolute path. Throws IoError if it is not a folder.
std::filesystem::path temporary_folder();

// Whether programs and libraries may be executed from a folder: it is not on a file system that is mounted noexec. True if
// that is unknown.
bool may_execute_in(const std::filesystem::path& folder);

// The folder of this user's programs and data: $XDG_DATA_HOME, else $HOME/.local/share. Nothing if neither is
// set.
std::optional<std::filesystem::path> data_home();

}  // namespace assay
