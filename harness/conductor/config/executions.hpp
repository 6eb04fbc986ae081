// The modes and layouts in which a backend executes the cells of a row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/conductor/backends/backends.hpp"

namespace assay {

bool takes_every_mode(const std::vector<std::string>& asked);

// The modes of a backend in a row that requests none. Empty words: `recommended` means every mode, `bare` means none.
struct DefaultModes {
  std::string recommended{};
  std::string bare{};  // next to other backends: the tax of frameworks is relative to it
};

// The requested modes that the backend has. If none is requested, those of `defaults`. `several`: the row has other
// backends.
std::vector<std::string> modes_of(const BackendDescription& backend, const std::vector<std::string>& asked,
                                  const DefaultModes& defaults, bool several);

// Throws ConfigError, led by `where`, for a mode that no backend has, or `best` with another mode.
void reject_unknown_modes(const std::vector<std::string>& modes,
                          const std::vector<const BackendDescription*>& backends, std::string_view where);

struct Execution {
  std::string mode;
  std::string layout{};  // empty: the layout of the row
  bool candidate = false;
};

// The executions of a backend for the modes that the row names, as modes_of() has them. `any_layout`: the search for the
// best may choose it.
std::vector<Execution> executions_of(const BackendDescription& backend, const std::vector<std::string>& asked,
                                     const DefaultModes& defaults, bool several, bool any_layout);

}  // namespace assay
