#include "harness/conductor/config/executions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/error.hpp"
#include "harness/core/text.hpp"

namespace assay {

bool takes_every_mode(const std::vector<std::string>& asked) {
  return contains(asked, every_mode) || contains(asked, best_mode);
}

std::vector<std::string> modes_of(const BackendDescription& backend, const std::vector<std::string>& asked,
                                  const DefaultModes& defaults, bool several) {
  if (takes_every_mode(asked)) {
    std::vector<std::string> modes = backend.modes;
    const bool without_bare = contains(asked, best_mode) && !several && modes.size() > 1;
    if (!without_bare) return modes;
    std::vector<std::string> others = modes;
    std::erase_if(others, [&](const std::string& mode) { return backend.is_bare(mode); });
    return others.empty() ? modes : others;
  }
  std::vector<std::string> modes;
  if (asked.empty()) {
    if (defaults.recommended.empty()) return backend.modes;
    modes = {defaults.recommended};
    if (several && !defaults.bare.empty() && defaults.bare != defaults.recommended)
      modes.push_back(defaults.bare);
    return modes;
  }
  for (const std::string& mode : asked)
    if (contains(backend.modes, mode)) modes.push_back(mode);
  return modes;
}

void reject_unknown_modes(const std::vector<std::string>& modes,
                          const std::vector<const BackendDescription*>& backends, std::string_view where) {
  std::vector<std::string> known;
  for (const BackendDescription* backend : backends) {
    for (const std::string& mode : backend->modes) {
      if (!contains(known, mode)) known.push_back(mode);
    }
  }
  if (modes.size() > 1 && contains(modes, best_mode))
    throw ConfigError(fmt::format("{}: [mode] got {}: best cannot be combined with other modes", where,
                                  fmt::join(modes, ", ")));
  for (const std::string& mode : modes) {
    if (mode != every_mode && mode != best_mode && !contains(known, mode)) {
      throw ConfigError(fmt::format("{}: [mode] got '{}': no backend has this mode{}", where, mode,
                                    suggestion(mode, known)));
    }
  }
}

std::vector<Execution> executions_of(const BackendDescription& backend, const std::vector<std::string>& asked,
                                     const DefaultModes& defaults, bool several, bool any_layout) {
  std::vector<Execution> executions;
  const std::vector<std::string> modes = modes_of(backend, asked, defaults, several);
  if (!contains(asked, best_mode)) {
    for (const std::string& mode : modes) executions.push_back({.mode = mode});
    return executions;
  }
  for (const std::string& layout : any_layout ? backend.layouts : std::vector<std::string>{""}) {
    for (const std::string& mode : modes) {
      const bool bare = backend.is_bare(mode);  // not a candidate: measured once, in its first layout
      if (bare && layout != backend.layouts.front() && any_layout) continue;
      executions.push_back({.mode = mode, .layout = layout, .candidate = !bare});
    }
  }
  return executions;
}

}  // namespace assay
