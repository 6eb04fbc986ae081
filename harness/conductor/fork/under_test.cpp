#include "harness/conductor/fork/under_test.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

namespace assay {

void mark_under_test(std::vector<protocol::Library>& libraries, const BackendDescription& backend) {
  namespace fs = std::filesystem;
  const auto real = [](const fs::path& path) {
    std::error_code error;
    const fs::path found = fs::weakly_canonical(path, error);
    return error ? path : found;
  };
  const fs::path folder = real(backend.folder);
  for (protocol::Library& library : libraries) {
    if (library.path.empty()) continue;
    const fs::path path = real(library.path), inside = path.lexically_relative(folder);
    const bool in_folder = !folder.empty() && !inside.empty() && *inside.begin() != "..";
    const bool installed = std::ranges::any_of(
        inside, [](const fs::path& part) { return part == "site-packages" || part == "dist-packages"; });
    const bool is_worker = std::ranges::any_of(backend.command, [&](const std::string& word) {
      return word.starts_with('/') && real(word) == path;
    });
    library.under_test =
        (in_folder && !installed) || is_worker || path.filename().string().starts_with("libassay_");
  }
}

}  // namespace assay
