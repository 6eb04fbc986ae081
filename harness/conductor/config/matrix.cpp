#include "harness/conductor/config/matrix.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/conductor/config/op_cells.hpp"
#include "harness/conductor/config/variant.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/cores.hpp"
#include "workloads/ops/op_workload.hpp"
#include "workloads/workload.hpp"

namespace assay {
namespace {

using Names = std::vector<std::string>;

const std::string every_mode = "all", best_mode = "best";

const Names& texts_of(const Names& names) { return names; }

// Calls `visit` with every combination of the lists, the last one running fastest.
void multiply_out(const std::vector<std::pair<std::string, Names>>& lists,
                  const std::function<void(const OptionValues&)>& visit) {
  std::vector<std::size_t> index(lists.size(), 0);
  for (;;) {
    OptionValues point;
    for (std::size_t i = 0; i < lists.size(); ++i) point[lists[i].first] = {lists[i].second[index[i]]};
    visit(point);
    std::size_t i = lists.size();
    while (i > 0 && ++index[i - 1] == lists[i - 1].second.size()) index[--i] = 0;
    if (i == 0) return;
  }
}

class Expander {
 public:
  Expander(const RunConfig& config, const BackendRegistry& registry)
      : config_(config), registry_(registry), settings_(settings_of(config)) {}

  Expansion run() {
    for (row_ = 0; row_ < config_.rows.size(); ++row_) expand_row(config_.rows[row_]);
    return std::move(expansion_);
  }

 private:
  void expand_row(const ConfigRow& row) {
    const OptionValues values = row_values(config_, row);
    const Names workloads = list_of(values, "workload");
    if (workloads.empty()) {
      throw ConfigError(fmt::format("{}: no workload is named; see: assay list workloads", row.where));
    }
    const auto backends = backends_of(values, row);
    const Names modes = list_of(values, "mode");
    refuse_unknown_modes(modes, backends, row);
    note_left_out(values, modes, backends);
    for (const std::string& workload : named_workloads(workloads)) {
      const bool op = is_op_workload(workload);
      AxisLists lists =
          op ? op_axes(workload, values, settings_.quick, row.where) : network_axes(workload, values, row);
      const Workload* network = op ? nullptr : &find_workload(workload);
      refuse_too_many(lists, backends.size(), row);
      multiply_out(lists, [&](OptionValues point) {
        const Axes axes = axes_of(point, values);
        if (is_repetition(network, lists, point, axes)) return;
        const bool any_layout = !values.contains("layout") && point.contains("layout") &&
                                varies(*find_axis("layout"), network, axes);
        for (const BackendDescription* backend : backends) {
          for (const Execution& execution : executions_of(*backend, modes, backends.size() > 1, any_layout)) {
            if (!execution.layout.empty()) point["layout"] = {execution.layout};
            Cell cell = make(workload, *backend, execution.mode, point, values, row);
            if (takes_every_mode(modes) && cell.refused_for_mode) continue;
            for (const ConfigPublished& published : row.published)
              cell.published.push_back(
                  resolved(published, workload, *backend, execution.mode, point, values, row));
            cell.candidate = execution.candidate;
            cell.row = row_;
            add(std::move(cell), row);
          }
        }
      });
    }
  }

  // Each list is short and their product need not be.
  void refuse_too_many(const AxisLists& lists, std::size_t backends, const ConfigRow& row) const {
    constexpr double most_cells = 20'000;
    // Each may name another cell, which is made to find its id.
    constexpr double max_published = 20'000;
    double cells = static_cast<double>(backends);
    for (const auto& [axis, values] : lists) cells *= static_cast<double>(values.size());
    cells += static_cast<double>(expansion_.cells.size());
    if (cells > most_cells)
      throw ConfigError(
          fmt::format("{}: it makes {:.3g} cells, and {:.0f} are the most of a run: make several", row.where,
                      cells, most_cells));
    if (const double published = cells * static_cast<double>(row.published.size()); published > max_published)
      throw ConfigError(
          fmt::format("{}: it puts {:.3g} published numbers next to its cells, and {:.0f} are the maximum; "
                      "write several configs",
                      row.where, published, max_published));
  }

  // How a backend executes a cell.
  struct Execution {
    std::string mode;
    std::string layout{};  // empty: as the row says
    bool candidate = false;
  };

  // What a row that asks for these modes makes of a backend. `any_layout`: the search for the best may choose it.
  static std::vector<Execution> executions_of(const BackendDescription& backend, const Names& asked,
                                              bool several, bool any_layout) {
    std::vector<Execution> executions;
    const Names modes = modes_of(backend, asked, several);
    if (!contains(asked, best_mode)) {
      for (const std::string& mode : modes) executions.push_back({.mode = mode});
      return executions;
    }
    for (const std::string& layout : any_layout ? backend.layouts : Names{""}) {
      for (const std::string& mode : modes) {
        const bool bare = mode == backend.bare_mode;  // beside the contest: once, in its first layout
        if (bare && layout != backend.layouts.front() && any_layout) continue;
        executions.push_back({.mode = mode, .layout = layout, .candidate = !bare});
      }
    }
    return executions;
  }

  // The modes of the backend that are asked for. Without any, the one that it recommends; next to other backends
  // also its bare one, which the tax of frameworks is over.
  static Names modes_of(const BackendDescription& backend, const Names& asked, bool several) {
    if (takes_every_mode(asked)) {
      Names modes = backend.modes;
      const bool without_bare = contains(asked, best_mode) && !several && modes.size() > 1;
      if (without_bare) std::erase(modes, backend.bare_mode);
      return modes;
    }
    Names modes;
    if (asked.empty()) {
      if (backend.recommended.empty()) return backend.modes;
      modes = {backend.recommended};
      if (several && !backend.bare_mode.empty() && backend.bare_mode != backend.recommended)
        modes.push_back(backend.bare_mode);
      return modes;
    }
    for (const std::string& mode : asked)
      if (contains(backend.modes, mode)) modes.push_back(mode);
    return modes;
  }

  static bool takes_every_mode(const Names& asked) {
    return contains(asked, every_mode) || contains(asked, best_mode);
  }

  // A backend that was named and has none of the modes makes no cell: nobody shall look for it in vain.
  void note_left_out(const OptionValues& values, const Names& modes,
                     const std::vector<const BackendDescription*>& backends) {
    if (!values.contains("backend")) return;
    for (const BackendDescription* backend : backends) {
      if (!modes_of(*backend, modes, false).empty()) continue;
      std::string text = fmt::format("{} is left out: it has none of the modes {} (it has {})", backend->name,
                                     fmt::join(modes, ", "), fmt::join(backend->modes, ", "));
      if (!contains(expansion_.left_out, text)) expansion_.left_out.push_back(std::move(text));
    }
  }

  // The axes that a point sets, before a workload settles the rest.
  Axes axes_of(const OptionValues& point, const OptionValues& values) const {
    Axes axes;
    axes.loader = default_loader(measure_of(values));
    set_fields(axes, point);
    return axes;
  }

  // If an axis has no effect on this cell, keep only its first value.
  static bool is_repetition(const Workload* workload, const AxisLists& lists, const OptionValues& point,
                            const Axes& axes) {
    return std::any_of(lists.begin(), lists.end(), [&](const auto& list) {
      const auto& [axis, all] = list;
      return !varies(*find_axis(axis), workload, axes) && text_of(point, axis) != all.front();
    });
  }

  static LoaderKind default_loader(const MeasurePlan& measure) {
    return measure.epochs > 0 ? LoaderKind::harness : LoaderKind::resident;
  }

  static AxisLists network_axes(const std::string& workload, const OptionValues& values,
                                const ConfigRow& row) {
    refuse_op_axes(workload, values, row.where);
    try {
      find_workload(workload);
    } catch (const GraphError& error) {
      throw ConfigError(fmt::format("{}: {}", row.where, error.what()));
    }
    return axis_lists(CellKind::network, values);
  }

  std::vector<const BackendDescription*> backends_of(const OptionValues& values, const ConfigRow& row) const {
    const Names names = list_of(values, "backend");
    std::vector<const BackendDescription*> result;
    for (const BackendDescription& backend : registry_.backends) {
      if (names.empty() && backend.available() && !backend.oracle) result.push_back(&backend);
    }
    for (const std::string& name : names) {
      const BackendDescription* backend = registry_.find(name);
      if (!backend) refuse_backend(name, row);
      result.push_back(backend);
    }
    if (result.empty())
      throw ConfigError(fmt::format("{}: no backend is available; see: assay list backends", row.where));
    return result;
  }

  static void refuse_unknown_modes(const Names& modes, const std::vector<const BackendDescription*>& backends,
                                   const ConfigRow& row) {
    Names known;
    for (const BackendDescription* backend : backends) {
      for (const std::string& mode : backend->modes) {
        if (!contains(known, mode)) known.push_back(mode);
      }
    }
    if (modes.size() > 1 && contains(modes, best_mode))
      throw ConfigError(
          fmt::format("{}: [mode] got {}: best stands alone", row.where, fmt::join(modes, ", ")));
    for (const std::string& mode : modes) {
      if (mode != every_mode && mode != best_mode && !contains(known, mode)) {
        throw ConfigError(fmt::format("{}: [mode] got '{}': none of the backends has it{}", row.where, mode,
                                      suggestion(mode, known)));
      }
    }
  }

  // A ratio is to the cell that this one would be with the axes of `to`.
  Published resolved(const ConfigPublished& given, const std::string& workload,
                     const BackendDescription& backend, const std::string& mode, OptionValues point,
                     OptionValues values, const ConfigRow& row) const {
    Published published = given.published;
    if (given.to.empty()) return published;
    const auto other = [&](const char* axis, const std::string& own) {
      const auto found = given.to.find(axis);
      return found == given.to.end() ? own : found->second.front();
    };
    const std::string name = other("backend", backend.name);
    const BackendDescription* other_backend = registry_.find(name);
    if (!other_backend) refuse_backend(name, row);
    if (given.to.contains("epochs")) values.erase("steps");
    if (given.to.contains("steps")) values.erase("epochs");
    for (const auto& [axis, value] : given.to) point[axis] = values[axis] = value;
    published.to =
        make(other("workload", workload), *other_backend, other("mode", mode), point, values, row).id;
    return published;
  }

  [[noreturn]] void refuse_backend(const std::string& name, const ConfigRow& row) const {
    Names known;
    for (const BackendDescription& backend : registry_.backends) known.push_back(backend.name);
    std::string hint = suggestion(name, known);
    if (name == "all") hint = "; without --backend all of them are taken";
    if (name.find(' ') != name.npos) hint = "; separate names by commas" + hint;
    throw ConfigError(
        fmt::format("{}: [backend] got '{}': there is no such backend{}", row.where, name, hint));
  }

  Cell make(const std::string& workload_name, const BackendDescription& backend, const std::string& mode,
            const OptionValues& point, const OptionValues& values, const ConfigRow& row) const {
    try {
      Cell cell;
      cell.backend = &backend;
      cell.measure = measure_of(values);
      cell.check = flag_of(values, "check");
      cell.distinct = integer_of(values, "distinct");
      cell.profile = settings_.profile;
      cell.axes.workload = workload_name;
      cell.axes.backend = backend.name;
      cell.axes.mode = mode;
      if (is_op_workload(workload_name)) {
        settle_op(cell, point);
      } else {
        settle_network(cell, point);
      }
      cell.id = cell_id(cell.axes);
      judge(cell, cell.program());  // a graph that cannot be built is refused now
      return cell;
    } catch (const ConfigError&) {
      throw;
    } catch (const GraphError& error) {  // the graph cannot be built, or the size is not one of the op
      refuse(row, error);
    } catch (const IoError& error) {  // the data set's files
      refuse(row, error);
    } catch (const DataError& error) {  // the data set, or the augmentation
      refuse(row, error);
    }
  }
  [[noreturn]] static void refuse(const ConfigRow& row, const std::exception& error) {
    throw ConfigError(fmt::format("{}: {}", row.where, error.what()));
  }

  void settle_network(Cell& cell, const OptionValues& point) const {
    const Workload& workload = find_workload(cell.axes.workload);
    Axes& axes = cell.axes;
    axes.batch = workload.batch;
    axes.dataset = workload.dataset;
    axes.optimizer = workload.optimizer.kind;
    axes.loader = default_loader(cell.measure);
    set_fields(axes, point);
    if (text_of(point, "threads").empty()) {
      // What is the loader's own is not there for the computation.
      const bool loads = axes.loader != LoaderKind::resident;
      const std::int64_t taken = loads ? integer_of(point, "loader-threads") : 0;
      axes.threads = std::max(1, static_cast<int>(usable_cores().size()) - static_cast<int>(taken));
    }
    axes.dataset = find_dataset(axes.dataset).name;
    look_at_own_samples(cell, workload);
    if (axes.loader == LoaderKind::resident) axes.loader_workers = 0;
    axes.measure = cell.measure.epochs > 0 ? fmt::format("epochs:{}", cell.measure.epochs) : "steps";
    if (settings_.quick) shrink(cell);
    settle_variant(cell, &workload, settings_.quick ? shrunk(point, cell) : point);
  }

  void look_at_own_samples(Cell& cell, const Workload& workload) const {
    const Dataset& dataset = find_dataset(cell.axes.dataset);
    if (dataset.made_here() || dataset.classes > 0) return;
    const DatasetPlace place = locate_dataset(dataset, dataset_folders(settings_.data));
    if (!place.here) return;  // the run says so, with the remedy
    const SampleKind kind = dataset.format->describe(place.folder);
    cell.network().own_sample_shape = kind.sample_shape.empty() ? workload.sample_shape : kind.sample_shape;
    cell.network().own_classes = kind.classes;
  }

  MeasurePlan measure_of(const OptionValues& values) const {
    MeasurePlan plan;
    plan.epochs = values.contains("epochs") ? integer_of(values, "epochs") : 0;
    plan.steps = values.contains("steps") ? integer_of(values, "steps") : 0;
    plan.blocks = integer_of(values, "blocks");
    plan.block_seconds = number_of(values, "block-seconds");
    plan.warm_up_steps = integer_of(values, "warm-up-steps");
    plan.warm_up_seconds = number_of(values, "warm-up-seconds");
    plan.resident_batches = integer_of(values, "resident-batches");
    if (settings_.quick) {
      plan.epochs = std::min<std::int64_t>(plan.epochs, 1);
      plan.steps = std::min<std::int64_t>(plan.steps, 50);
      plan.blocks = std::min<std::int64_t>(plan.blocks, 3);
      plan.block_seconds = std::min(plan.block_seconds, 0.02);
      plan.warm_up_steps = std::min<std::int64_t>(plan.warm_up_steps, 3);
      plan.warm_up_seconds = std::min(plan.warm_up_seconds, 0.05);
    }
    return plan;
  }

  static constexpr std::int64_t quick_distinct = 2, quick_batches = 10;

  static void shrink(Cell& cell) { cell.distinct = std::min(cell.distinct, quick_distinct); }

  // A quick epoch is a few batches, unless the config says how much of the data set it is.
  static OptionValues shrunk(OptionValues point, const Cell& cell) {
    std::string& samples = point["samples"].front();
    if (samples.empty() && cell.measure.epochs > 0) samples = std::to_string(quick_batches * cell.axes.batch);
    return point;
  }

  static void judge(Cell& cell, const Program& program) {
    const BackendDescription& backend = *cell.backend;
    const auto need = [&](const char* axis, const auto& offered, const auto& wanted) {
      if (!cell.runnable() || backend.awaited || contains(offered, wanted)) return;
      end_with(cell, ReasonCode::axis_value_not_offered,
               fmt::format("[{}] {} '{}' is not among {}", backend.name, axis, cell.axes.text(axis),
                           fmt::join(texts_of(offered), ", ")));
    };
    need("device", backend.devices, cell.axes.device);
    need("task", backend.tasks, cell.axes.task);
    need("precision", backend.precisions, cell.axes.precision);
    need("layout", backend.layouts, cell.axes.layout);
    need("loader", backend.loaders, cell.axes.loader);
    if (const Refusal* rule = cell.runnable() ? cell.refusal(program) : nullptr) {
      end_with(cell, ReasonCode::refused_by_rule, fmt::format("[{}] {}", backend.name, rule->reason));
      cell.refused_for_mode = !rule->modes.empty();
    }
    if (cell.runnable() && cell.axes.optimizer == "lazy_adam" && cell.axes.task == Task::train &&
        !cell.network().sparse_embedding) {
      end_with(
          cell, ReasonCode::sparse_gradients_needed,
          "lazy_adam updates the rows that a gradient touches, and dense gradients do not say which: ask for "
          "--embedding-gradient sparse, or for adam, which is the same where all is touched");
    }
    if (cell.runnable() && cell.axes.compile_cache == CacheState::warm && !backend.awaited &&
        !backend.has_compile_cache()) {
      end_with(cell, ReasonCode::no_compile_cache,
               fmt::format("[{}] keeps no compiled programs on disk, so there is no cache to be warm",
                           backend.name));
    }
    const bool limited = cell.axes.number("memory-fraction") > 0 || cell.axes.number("memory-cap") > 0;
    if (cell.runnable() && limited && !backend.awaited &&
        !contains(backend.memory_limits, cell.axes.device)) {
      end_with(cell, ReasonCode::no_memory_limit,
               fmt::format("[{}] nothing on the device {} holds it to a share of the memory", backend.name,
                           to_string(cell.axes.device)));
    }
    if (cell.runnable() && cell.measure.epochs > 0 && cell.axes.task == Task::infer) {
      end_with(cell, ReasonCode::epochs_of_inference, "inference is measured in steps, not in epochs");
    }
    if (cell.runnable() && cell.measure.epochs > 0 && cell.axes.loader == LoaderKind::resident) {
      end_with(cell, ReasonCode::epochs_of_resident_batches,
               "epochs need a loader: the resident one rotates a few batches");
    }
    if (cell.runnable() && !backend.available()) {
      end_with(cell, ReasonCode::backend_unavailable,
               backend.remedy.empty() ? backend.unavailable
                                      : fmt::format("{}; {}", backend.unavailable, backend.remedy));
    }
    if (const auto lacks = backend.unavailable_on.find(cell.axes.device);
        cell.runnable() && lacks != backend.unavailable_on.end()) {
      end_with(cell, ReasonCode::backend_unavailable, fmt::format("[{}] {}", backend.name, lacks->second));
    }
  }

  void add(Cell cell, const ConfigRow& row) {
    if (!ids_.insert(cell.id).second) {
      // What --quick takes away, such as epochs, may be all in which two rows differ.
      if (settings_.quick) return;
      throw ConfigError(fmt::format("{}: the cell {} is there already: give it once, or let an axis differ",
                                    row.where, cell.id));
    }
    expansion_.cells.push_back(std::move(cell));
  }

  const RunConfig& config_;
  const BackendRegistry& registry_;
  RunSettings settings_;
  Expansion expansion_;
  std::set<std::string> ids_;
  std::size_t row_ = 0;  // that is expanded
};

}  // namespace

RunSettings settings_of(const RunConfig& config) {
  RunSettings settings;
  settings.forks = static_cast<int>(integer_of(config.values, "forks"));
  // Who runs one or two forks wants to see that it works: there are no spare ones.
  settings.spare_rounds = config.values.contains("spare-rounds")
                              ? static_cast<int>(integer_of(config.values, "spare-rounds"))
                              : settings.forks / 3;
  settings.until = text_of(config.values, "until") == "clear" ? Until::clear : Until::forks;
  settings.fork_style =
      text_of(config.values, "fork-style") == "resident" ? ForkStyle::resident : ForkStyle::fresh;
  settings.max_seconds = duration_of(config.values, "max-time");
  settings.seed = static_cast<std::uint64_t>(integer_of(config.values, "seed"));
  settings.seed_per_round = flag_of(config.values, "seed-per-round");
  settings.time_limit = number_of(config.values, "time-limit");
  settings.quick = flag_of(config.values, "quick");
  settings.profile = flag_of(config.values, "profile");
  settings.roofline = text_of(config.values, "roofline");
  for (const std::string& folder : list_of(config.values, "data")) settings.data.emplace_back(folder);
  if (settings.quick) {
    settings.until = Until::forks;
    settings.spare_rounds = 0;
    // Without a config every value is the user's own.
    const bool asked = config.name.empty() && config.values.contains("forks");
    if (!asked) settings.forks = std::min(settings.forks, 1);  // 0 stays: nothing is executed
  }
  return settings;
}

bool seeks_best(const RunConfig& config) {
  return std::any_of(config.rows.begin(), config.rows.end(), [&](const ConfigRow& row) {
    return contains(list_of(row_values(config, row), "mode"), best_mode);
  });
}

Expansion expand(const RunConfig& config, const BackendRegistry& registry) {
  return Expander(config, registry).run();
}

}  // namespace assay
