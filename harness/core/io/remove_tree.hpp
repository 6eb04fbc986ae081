// Removes folders that another program filled.
#pragma once

#include <filesystem>
#include <string>

namespace assay {

// Removes a folder with everything in it, or a file; does not follow links. Where that fails, it first takes back what
// forbids it: permissions of folders, and the flags "immutable" and "append only" (chattr). Returns the first entry that
// is left and why; empty if nothing is left. Never throws because of the files.
std::string remove_tree(const std::filesystem::path& path);

}  // namespace assay
