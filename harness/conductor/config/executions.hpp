// The modes and layouts in which a backend executes the cells of a row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/conductor/backends/backends.hpp"

namespace assay {

bool takes_every_mode(const std::vector<std::string>& asked);

// The requested modes that the backend has. If none is requested: the mode that it recommends, and if there
// are `several` backends also its bare mode, which the tax of frameworks is relative to.
std::vector<std::string> modes_of(const BackendDescription& backend, const std::vector<std::string>& asked,
                                  bool several);

// Throws ConfigError, led by `where`, for a mode that no backend has, or `best` with another mode.
void reject_unknown_modes(const std::vector<std::string>& modes,
                          const std::vector<const BackendDescription*>& backends, std::string_view where);

struct Execution {
  std::string mode;
  std::string layout{};  // empty: the layout of the row
  bool candidate = false;
};

// The executions of a backend for the modes that the row names. `any_layout`: the search for the best may
// choose it.
std::vector<Execution> executions_of(const BackendDescription& backend, const std::vector<std::string>& asked,
                                     bool several, bool any_layout);

}  // namespace assay
