#include "harness/conductor/backends/backends.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/paths.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Placeholders {
  std::string here, environment, interpreter;
  std::string assay_worker = environment_maker().parent_path().string();
  std::string cache = "${cache}", kept = "${kept}";  // stay as they are: they differ by fork or cell
};

Placeholders placeholders_for(const fs::path& folder, const std::string& framework,
                              const Interpreters& interpreters) {
  Placeholders values;
  values.here = folder.string();
  if (const auto environment = environment_of(framework)) {
    values.environment = environment->string();
    values.interpreter = values.environment + "/bin/python";
  }
  std::string variable = "ASSAY_PYTHON_" + framework;
  std::transform(variable.begin(), variable.end(), variable.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (const std::string set = environment_text(variable.c_str()); !set.empty()) values.interpreter = set;
  if (const auto given = interpreters.find(framework); given != interpreters.end())
    values.interpreter = given->second;
  return values;
}

std::string substitute(std::string text, const Placeholders& values, const std::string& where) {
  for (std::size_t begin = 0; (begin = text.find("${", begin)) != std::string::npos;) {
    const std::size_t end = text.find('}', begin);
    const std::string name = text.substr(begin + 2, end == std::string::npos ? end : end - begin - 2);
    const std::string* value = name == "here"           ? &values.here
                               : name == "environment"  ? &values.environment
                               : name == "interpreter"  ? &values.interpreter
                               : name == "assay_worker" ? &values.assay_worker
                               : name == "cache"        ? &values.cache
                               : name == "kept"         ? &values.kept
                                                        : nullptr;
    if (!value || end == std::string::npos)
      throw ConfigError(fmt::format(
          "{}: unknown placeholder ${{{}}}; known are here, environment, interpreter, assay_worker, cache, kept",
          where, name));
    text.replace(begin, end - begin + 1, *value);
    begin += value->size();
  }
  return text;
}

// Names become parts of paths, command lines and logs.
void require_word(const char* field, const std::string& word, const std::string& where) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+";
  constexpr std::size_t longest = 40;
  if (!word.empty() && word.size() <= longest && word.front() != '.' &&
      word.find_first_not_of(allowed) == std::string::npos)
    return;
  throw ConfigError(
      fmt::format("{}: the {} '{}' must be at most {} letters, digits and _ - . +, and not begin with a dot",
                  where, field, printable(word, 80), longest));
}

// Quick: only checks whether files exist; starts nothing.
void check_requirements(BackendDescription& backend, const Placeholders& values, const std::string& where) {
  if (backend.needs_environment && values.interpreter.empty()) {
    backend.unavailable =
        "the folder of the environments is unknown: none of ASSAY_ENVIRONMENTS, XDG_DATA_HOME and HOME is set";
    backend.remedy = "set ASSAY_ENVIRONMENTS to the folder that scripts/setup made";
    return;
  }
  // A user-supplied Python replaces the one of the environment, which need not exist then.
  const std::string own = values.environment + "/bin/python";
  for (const Requirement& requirement : backend.requirements) {
    const bool replaced = requirement.file == "${environment}/bin/python" && values.interpreter != own;
    const std::string path = substitute(replaced ? "${interpreter}" : requirement.file, values, where);
    const auto is_there = [&](const std::string& file) {
      std::error_code error;
      return fs::exists(substitute(file, values, where), error);
    };
    if (is_there(path) || std::ranges::any_of(requirement.or_one, is_there)) continue;
    const std::string reason = fmt::format("{}: {} does not exist", requirement.reason, path);
    if (requirement.several_ranks) {
      if (backend.unavailable_in_ranks.empty())
        backend.unavailable_in_ranks = fmt::format("{}; {}", reason, requirement.remedy);
      continue;
    }
    for (const DeviceKind device : requirement.devices)
      backend.unavailable_on.try_emplace(device, fmt::format("{}; {}", reason, requirement.remedy));
    if (!requirement.devices.empty()) continue;
    backend.unavailable = reason;
    backend.remedy = requirement.remedy;
    return;
  }
  const std::string& program = backend.command.front();
  if (program.find('/') != std::string::npos && ::access(program.c_str(), X_OK) != 0) {
    backend.unavailable = fmt::format("its worker {} does not exist or is not executable", program);
    backend.remedy = "build or install this backend";
  }
}

void require_mode(const BackendDescription& backend, const char* which, const std::string& mode,
                  const std::string& where) {
  if (mode.empty() || contains(backend.modes, mode)) return;
  throw ConfigError(fmt::format("{}: the {} mode '{}' is not one of its modes {}{}", where, which, mode,
                                fmt::join(backend.modes, ", "), suggestion(mode, backend.modes)));
}

std::vector<fs::path> descriptions_in(const std::vector<fs::path>& folders) {
  std::vector<fs::path> files;
  for (const fs::path& folder : folders) {
    std::error_code error;
    // A folder in the list may itself be a backend.
    if (fs::exists(folder / "backend.json", error)) files.push_back(fs::absolute(folder / "backend.json"));
    std::vector<fs::path> here;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const fs::path file = entry.path() / "backend.json";
      std::error_code ignored;
      if (fs::exists(file, ignored)) here.push_back(fs::absolute(file));
    }
    std::sort(here.begin(), here.end());
    files.insert(files.end(), here.begin(), here.end());
  }
  return files;
}

void add(BackendRegistry& registry, BackendDescription backend) {
  const BackendDescription* first = registry.find(backend.name);
  if (!first) {
    registry.backends.push_back(std::move(backend));
    return;
  }
  std::error_code ignored;
  if (fs::equivalent(first->folder, backend.folder, ignored)) return;
  registry.faults.push_back(fmt::format("the backend '{}' in {} replaces the one in {}", backend.name,
                                        first->folder.string(), backend.folder.string()));
}

void keep_one_oracle(BackendRegistry& registry) {
  bool have = false;
  for (auto backend = registry.backends.rbegin(); backend != registry.backends.rend(); ++backend) {
    if (!backend->oracle || !backend->available()) continue;
    if (have) {
      backend->oracle = false;
      registry.faults.push_back(
          fmt::format("the backend '{}' in {} is not used as the oracle, because there is another one",
                      backend->name, backend->folder.string()));
    }
    have = true;
  }
}

}  // namespace

Interpreters parse_interpreters(const std::vector<std::string>& given) {
  Interpreters result;
  for (const std::string& item : given) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == item.size()) {
      throw ConfigError(
          fmt::format("[interpreter] got '{}': must be NAME=PATH, such as torch=/usr/bin/python3", item));
    }
    const std::string path = item.substr(equals + 1);
    std::error_code ignored;
    if (::access(path.c_str(), X_OK) != 0 || fs::is_directory(path, ignored)) {
      throw ConfigError(fmt::format(
          "[interpreter] got '{}': {} does not exist or is not a program; name a Python, such as ENVIRONMENT/bin/python",
          item, path));
    }
    result[item.substr(0, equals)] = fs::absolute(path).lexically_normal().string();
  }
  return result;
}

BackendDescription backend_from_json(const Json& json, const fs::path& file,
                                     const Interpreters& interpreters) {
  const std::string where = file.string();
  auto backend =
      decoded<BackendDescription>(json, where, {.reject_unknown = true, .allow_extensions = false});
  require_word("name", backend.name, where);
  // A folder of environments has its name.
  if (!backend.framework.empty()) require_word("framework", backend.framework, where);
  backend.folder = file.parent_path();
  if (const auto given = interpreters.find(backend.framework); given != interpreters.end())
    backend.interpreter = given->second;
  const Placeholders values = placeholders_for(backend.folder, backend.framework, interpreters);
  const auto names_environment = [](std::string_view text) {
    return text.find("${environment}") != text.npos || text.find("${interpreter}") != text.npos;
  };
  backend.needs_environment =
      std::ranges::any_of(backend.command, names_environment) ||
      std::ranges::any_of(backend.requirements, names_environment, &Requirement::file);
  for (std::string& part : backend.command) part = substitute(part, values, where);
  for (auto* variables : {&backend.environment, &backend.warm_environment})
    for (auto& [name, value] : *variables) value = substitute(value, values, where);
  for (const std::string_view word : {every_mode, best_mode})
    if (contains(backend.modes, word))
      throw ConfigError(fmt::format(
          "{}: a mode must not be called '{}', because --mode {} means several modes: give it another name",
          where, word, word));
  require_mode(backend, "recommended", backend.recommended, where);
  for (const auto& [device, modes] : backend.recommended_on) {
    const auto known = from_word<DeviceKind>(device);
    if (!known || !contains(backend.devices, *known))
      throw ConfigError(fmt::format("{}: recommended_on has '{}', which is not one of its devices {}", where,
                                    printable(device, 80), fmt::join(texts_of(backend.devices), ", ")));
    for (const std::string& mode : modes) require_mode(backend, "recommended", mode, where);
  }
  for (const std::string& mode : backend.bare_modes) require_mode(backend, "bare", mode, where);
  for (const std::string& mode : backend.compiles) require_mode(backend, "compiling", mode, where);
  for (const auto& [mode, teams] : backend.thread_teams) require_mode(backend, "threaded", mode, where);
  for (const std::string& mode : backend.running_accuracy)
    require_mode(backend, "running_accuracy", mode, where);
  for (const std::string& mode : backend.own_threads) require_mode(backend, "threaded", mode, where);
  check_requirements(backend, values, where);
  return backend;
}

bool BackendDescription::has_compile_cache() const {
  const auto names_cache = [](const auto& variable) {
    return variable.second.find("${cache}") != std::string::npos;
  };
  return std::ranges::any_of(environment, names_cache) || std::ranges::any_of(warm_environment, names_cache);
}

const BackendDescription* BackendRegistry::find(std::string_view name) const {
  for (const BackendDescription& backend : backends) {
    if (backend.name == name) return &backend;
  }
  return nullptr;
}

const BackendDescription* BackendRegistry::oracle() const {
  for (const BackendDescription& backend : backends) {
    if (backend.oracle && backend.available()) return &backend;
  }
  return nullptr;
}

BackendRegistry find_backends_in(const std::vector<fs::path>& folders, const Interpreters& interpreters) {
  BackendRegistry registry;
  for (const fs::path& file : descriptions_in(folders)) {
    try {
      add(registry, backend_from_json(read_strict_json(file, {1 << 20, 16}), file, interpreters));
    } catch (const Error& error) {
      registry.faults.emplace_back(error.what());
    }
  }
  keep_one_oracle(registry);
  std::sort(registry.backends.begin(), registry.backends.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return registry;
}

void add_awaited_backend(BackendRegistry& registry, const std::string& name,
                         const std::vector<std::string>& modes) {
  if (registry.find(name)) return;
  BackendDescription backend;
  backend.name = name;
  backend.kind = BackendKind::framework;
  backend.awaited = true;
  backend.modes = modes;
  backend.unavailable =
      fmt::format("this Assay does not have the backend: the folder backends/{} does not exist", name);
  registry.backends.push_back(std::move(backend));
  std::sort(registry.backends.begin(), registry.backends.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
}

BackendRegistry find_backends(const Interpreters& interpreters) {
  BackendRegistry registry = find_backends_in(backend_folders(), interpreters);
  for (const fs::path& folder : environment_list("ASSAY_BACKENDS")) {
    if (!descriptions_in({folder}).empty()) continue;
    registry.faults.push_back(fmt::format(
        "ASSAY_BACKENDS: {} has no backend; it must contain a folder with a backend.json", folder.string()));
  }
  return registry;
}

}  // namespace assay
