// A config file: read, written again, and expanded into cells.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/conductor/config/matrix.hpp"
#include "harness/conductor/config/run_settings.hpp"
#include "harness/core/json/strict_json.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz::of_config {
namespace {

BackendDescription backend(const char* name, BackendKind kind, std::vector<std::string> modes) {
  BackendDescription made;
  made.name = name;
  made.kind = kind;
  made.command = {"/bin/true"};
  made.devices = {DeviceKind::cpu};
  made.modes = std::move(modes);
  made.tasks = {Task::train, Task::infer};
  made.precisions = {PrecisionKind::fp32, PrecisionKind::bf16};
  made.layouts = {"native", "channels_last"};
  made.loaders = {LoaderKind::resident, LoaderKind::harness};
  return made;
}

const Registries& registries() {
  static const Registries made = [] {
    Registries all;
    all.backends.backends = {backend("library", BackendKind::bare, {"primitives"}),
                             backend("torch", BackendKind::framework, {"eager", "compile"})};
    all.backends.backends.front().bare_modes = {"primitives"};
    all.backends.backends.back().recommended = "compile";
    return all;
  }();
  return made;
}

// Graphs of other networks take milliseconds each.
bool is_quick(const RunConfig& config) {
  constexpr double max_cells = 200;
  for (const ConfigRow& row : config.rows) {
    const OptionValues values = row_values(config, row);
    double cells = 1.0 + static_cast<double>(row.published.size());
    for (const auto& [name, list] : values) cells *= static_cast<double>(list.size());
    const auto is_small = [](const std::string& name) { return name == "mlp" || name == "op/relu"; };
    if (cells > max_cells || !std::ranges::all_of(list_of(values, "workload"), is_small)) return false;
  }
  return config.rows.size() <= 8;
}

void require_cells(const RunConfig& config) {
  std::set<std::string> ids;
  for (const Cell& cell : expand(config, registries()).cells) {
    require(ids.insert(cell.id).second, "each cell is there once");
    require(cell.runnable() == cell.reason.empty(), "a cell that is not run has a reason");
    require(cell.axes.batch >= 1 && cell.axes.threads >= 1, "a cell has samples and threads");
  }
}

const Registration here("config", [](Input input) {
  const RunConfig config = config_from_json(parse_strict_json(text_of(input), "fuzz", {1 << 20, 16}), "fuzz");
  const nlohmann::json written = to_json(config);
  require(to_json(config_from_json(written, "again")) == written, "what is written again is the same");
  const RunSettings settings = settings_of(config);
  require(settings.forks >= 0 && settings.max_seconds >= 0, "settings are not negative");
  if (is_quick(config)) require_cells(config);
});

}  // namespace
}  // namespace assay::fuzz::of_config
