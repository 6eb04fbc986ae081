// The backends that are here: what each backend.json says. The conductor knows none by name.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "harness/core/domain.hpp"

namespace assay {

struct BackendDescription {
  std::string name;
  std::string description;
  std::string kind;  // "framework", "bare", "oracle"
  bool oracle = false;
  std::vector<std::string> command;  // placeholders substituted; the cell folder is added when it is started
  std::string framework;             // whose environment it lives in; empty for a program
  std::vector<DeviceKind> devices;
  std::vector<std::string> modes;
  std::vector<Task> tasks;
  std::vector<PrecisionKind> precisions;
  std::vector<std::string> layouts;
  std::vector<LoaderKind> loaders;
  std::vector<DeviceKind> memory_limits;  // on which it keeps to --memory-fraction and --memory-cap
  std::vector<std::string> ops;           // that it has; empty: it does not say
  std::filesystem::path folder;
  // Named by a config that awaits it; there is no folder, and what it will offer is not known.
  bool awaited = false;
  // Empty: it can be started. Otherwise why not, and how to get it.
  std::string unavailable, remedy;

  bool available() const { return unavailable.empty(); }
};

using Interpreters = std::map<std::string, std::string, std::less<>>;  // framework -> Python
// "torch=/usr/bin/python3" each. Throws ConfigError.
Interpreters parse_interpreters(const std::vector<std::string>& given);

// Throws ConfigError naming the file and the field.
BackendDescription backend_from_json(const nlohmann::json& json, const std::filesystem::path& file,
                                     const Interpreters& interpreters);

struct BackendRegistry {
  std::vector<BackendDescription> backends;  // ordered by name; one of a name: the first found
  // A line for each backend.json that cannot be read, each that an earlier one of its name stands before, and
  // each further oracle.
  std::vector<std::string> faults;

  // nullptr when there is none.
  const BackendDescription* find(std::string_view name) const;
  // The available backend that says "oracle": true; nullptr when there is none. Of several that of the last
  // folder: an added backend does not become the judge by its name alone.
  const BackendDescription* oracle() const;
};

// Adds a backend that a config awaits, with those modes, as unavailable; one that is here stays as it is.
void await_backend(BackendRegistry& registry, const std::string& name, const std::vector<std::string>& modes);

// Looks at files alone and starts nothing. A folder of $ASSAY_BACKENDS without any backend is a fault.
BackendRegistry find_backends(const Interpreters& interpreters = {});
BackendRegistry find_backends_in(const std::vector<std::filesystem::path>& folders,
                                 const Interpreters& interpreters);

}  // namespace assay
