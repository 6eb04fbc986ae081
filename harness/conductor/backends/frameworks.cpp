#include "harness/conductor/backends/frameworks.hpp"

#include <algorithm>
#include <sstream>

#include "harness/core/io/file.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::istringstream text(read_text(file));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::vector<Framework> installable_frameworks(const BackendRegistry& registry, bool cuda) {
  std::vector<Framework> found;
  for (const BackendDescription& backend : registry.backends) {
    const fs::path usual = backend.folder / "requirements.txt",
                   for_gpus = backend.folder / "requirements-cuda.txt";
    const bool known = std::ranges::find(found, backend.framework, &Framework::name) != found.end();
    const bool only_for_gpus = !fs::exists(usual);
    const fs::path requirements = only_for_gpus || (cuda && fs::exists(for_gpus)) ? for_gpus : usual;
    if (backend.framework.empty() || known || !fs::exists(requirements)) continue;
    found.push_back({backend.framework, requirements, backend.folder / "packages.txt", only_for_gpus});
  }
  // No backend: what `assay import` needs to read files of ONNX.
  if (const fs::path requirements = environment_maker().parent_path() / "import-requirements.txt";
      fs::exists(requirements))
    found.push_back({"import", requirements, {}});
  return found;
}

std::vector<std::string> pins_of(const Framework& framework) {
  std::vector<std::string> pins;
  for (const std::string& line : lines_of(framework.requirements))
    if (!line.empty() && line.front() != '#' && line.front() != ' ')
      pins.push_back(line.substr(0, line.find(" \\")));
  return pins;
}

std::vector<std::string> packages_of(const Framework& framework) {
  return fs::exists(framework.packages) ? lines_of(framework.packages) : std::vector<std::string>{};
}

bool is_installed(const Framework& framework, const fs::path& environment) {
  const fs::path installed = environment / "installed.txt";
  return fs::exists(installed) && read_text(installed) == read_text(framework.requirements);
}

}  // namespace assay
