#include "harness/conductor/config/matrix.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/conductor/config/devices.hpp"
#include "harness/conductor/config/executions.hpp"
#include "harness/conductor/config/op_cells.hpp"
#include "harness/conductor/config/run_settings.hpp"
#include "harness/conductor/config/runnable.hpp"
#include "harness/conductor/config/variant.hpp"
#include "harness/conductor/data/dataset.hpp"
#include "harness/conductor/data/format.hpp"
#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/machine/cores.hpp"
#include "harness/machine/memory.hpp"
#include "workloads/workload_registry.hpp"

namespace assay {
namespace {

using Names = std::vector<std::string>;

bool is_ipv4_address(const std::string& text) {
  in_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1;
}

// Calls `visit` with every combination of the lists; the last list changes fastest.
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
  Expander(const RunConfig& config, const Registries& registries)
      : config_(config),
        workloads_(registries.workloads),
        registry_(registries.backends),
        settings_(settings_of(config)) {}

  Expansion run() {
    for (row_ = 0; row_ < config_.rows.size(); ++row_) expand_row(config_.rows[row_]);
    if (expansion_.cells.empty() && !expansion_.left_out.empty())
      throw ConfigError(fmt::format("nothing to run: {}", fmt::join(expansion_.left_out, "; ")));
    if (settings_.profile) note_unprofiled();
    return std::move(expansion_);
  }

 private:
  // Notes the backends whose workers time no operators. Throws if no cell would have a profile.
  void note_unprofiled() {
    Names without;
    bool any = false;
    for (const Cell& cell : expansion_.cells) {
      any = any || cell.profile;
      if (!cell.profile && !contains(without, cell.axes.backend)) without.push_back(cell.axes.backend);
    }
    Names with;
    for (const BackendDescription& backend : registry_.backends)
      if (backend.times_operators) with.push_back(backend.name);
    if (!any && !without.empty())
      throw ConfigError(
          fmt::format("[profile] {} cannot time its operators; use --backend {}, or the framework's own "
                      "profiler",
                      fmt::join(without, ", "), fmt::join(with, ", ")));
    for (const std::string& name : without)
      expansion_.left_out.push_back(fmt::format(
          "{} has no profile: it cannot time its operators, which {} can", name, fmt::join(with, ", ")));
  }

  void expand_row(const ConfigRow& row) {
    OptionValues values = row_values(config_, row);
    const Names workloads = list_of(values, "workload");
    if (workloads.empty()) {
      throw ConfigError(fmt::format(
          "{}: the workload is missing; name one with --workload (assay list workloads)", row.where));
    }
    const auto backends = backends_of(values, row);
    const bool names_backends = !list_of(values, "backend").empty();
    const Names modes = list_of(values, "mode");
    reject_unknown_modes(modes, backends, row.where);
    note_left_out(values, modes, backends);
    choose_device(values, backends, row);
    if (!names_backends) note_without_device(values, backends);
    for (const std::string& name : named_workloads(workloads, workloads_)) {
      const Subject subject = subject_of(name, row);
      const Workload* network = subject.network;
      AxisLists lists = subject.op ? op_axes(*subject.op, values, settings_.quick, row.where)
                                   : network_axes(name, values, row);
      reject_too_many(lists, backends.size(), row);
      multiply_out(lists, [&](OptionValues point) {
        const Axes axes = axes_of(point, values);
        if (is_repetition(network, lists, point, axes)) return;
        const bool any_layout = !values.contains("layout") && point.contains("layout") &&
                                varies(*find_axis("layout"), network, axes);
        for (const BackendDescription* backend : backends) {
          if (device_) point["device"] = {device_for(*backend, names_backends)};
          const DefaultModes defaults =
              modes.empty() ? default_modes(subject, *backend, point, values, row, backends.size() > 1)
                            : DefaultModes{backend->recommended};
          for (const Execution& execution :
               executions_of(*backend, modes, defaults, backends.size() > 1, any_layout)) {
            if (!execution.layout.empty()) point["layout"] = {execution.layout};
            Cell cell = make(subject, *backend, execution.mode, point, values, row);
            if (takes_every_mode(modes) && cell.refused_for_mode) continue;
            if (!names_backends && !takes_part(*backend, cell)) continue;
            if (!execution.layout.empty() && cell.refused_for_layout) continue;
            for (const ConfigPublished& published : row.published)
              cell.published.push_back(
                  resolved(published, subject, *backend, execution.mode, defaults, point, values, row));
            cell.candidate = execution.candidate;
            cell.row = row_;
            add(std::move(cell), row);
          }
        }
      });
    }
  }

  // Sets `device_` for a row that names no device, or whose device the machine decides.
  void choose_device(OptionValues& values, const std::vector<const BackendDescription*>& backends,
                     const ConfigRow& row) {
    const auto given = values.find("device");
    const Names device = given == values.end() ? Names() : given->second;
    device_.reset();
    if (!chooses_device(device, row.where)) return;
    const bool unnamed = device.empty() && list_of(values, "backend").empty();
    device_ = unnamed ? DeviceKind::cpu : chosen_device(backends, !device.empty());
    values["device"] = {std::string(to_string(*device_))};
  }
  // The device of a cell in a row that names none.
  std::string device_for(const BackendDescription& backend, bool is_named) const {
    return std::string(to_string(is_named ? device_of(backend, *device_) : *device_));
  }

  // Notes the backends that nobody named and that have none of the row's devices.
  void note_without_device(const OptionValues& values,
                           const std::vector<const BackendDescription*>& backends) {
    const Names devices = list_of(values, "device");
    if (std::ranges::any_of(devices,
                            [](const std::string& device) { return !from_word<DeviceKind>(device); }))
      return;  // setting the axis names the words
    for (const BackendDescription* backend : backends) {
      if (std::ranges::any_of(backend->devices,
                              [&](DeviceKind device) { return contains(devices, to_string(device)); }))
        continue;
      std::string text =
          fmt::format("{} is left out: it runs on {}, not on {}; use {}--device {}", backend->name,
                      fmt::join(texts_of(backend->devices), " and "), fmt::join(devices, " or "),
                      device_ ? "--backend to name it, or " : "", to_string(backend->devices.front()));
      if (!contains(expansion_.left_out, text)) expansion_.left_out.push_back(std::move(text));
    }
  }

  // Checks the product of the lists: each list may be short and the product still large.
  void reject_too_many(const AxisLists& lists, std::size_t backends, const ConfigRow& row) const {
    constexpr double max_cells = 20'000;
    // Each published number may name another cell, which is made to find its id.
    constexpr double max_published = 20'000;
    double cells = static_cast<double>(backends);
    for (const auto& [axis, values] : lists) cells *= static_cast<double>(values.size());
    cells += static_cast<double>(expansion_.cells.size());
    if (cells > max_cells)
      throw ConfigError(
          fmt::format("{}: makes {:.3g} cells, and a run has at most {:.0f}; split it into several runs",
                      row.where, cells, max_cells));
    if (const double published = cells * static_cast<double>(row.published.size()); published > max_published)
      throw ConfigError(fmt::format(
          "{}: makes {:.3g} published numbers, and a run has at most {:.0f}; split it into several runs",
          row.where, published, max_published));
  }

  // Notes the named backends that have no cell because they have none of the requested modes.
  void note_left_out(const OptionValues& values, const Names& modes,
                     const std::vector<const BackendDescription*>& backends) {
    if (!values.contains("backend")) return;
    for (const BackendDescription* backend : backends) {
      if (!modes_of(*backend, modes, {backend->recommended}, false).empty()) continue;
      std::string text = fmt::format("{} is skipped: it does not have the modes {} (it has {})",
                                     backend->name, fmt::join(modes, ", "), fmt::join(backend->modes, ", "));
      if (!contains(expansion_.left_out, text)) expansion_.left_out.push_back(std::move(text));
    }
  }

  // The axes that a point sets; the workload sets the other ones later.
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

  // The workload of a cell: a network or a single op.
  struct Subject {
    const Workload* network = nullptr;
    const OpWorkload* op = nullptr;
    const std::string& name() const { return op ? op->name : network->name; }
  };

  Subject subject_of(const std::string& name, const ConfigRow& row) const {
    try {
      if (is_op_workload(name)) return {.op = &workloads_.op(name)};
      return {.network = &workloads_.network(name)};
    } catch (const GraphError& error) {
      reject(row, error);
    }
  }

  static AxisLists network_axes(const std::string& workload, const OptionValues& values,
                                const ConfigRow& row) {
    reject_op_axes(workload, values, row.where);
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
      if (!backend) reject_backend(name, row);
      result.push_back(backend);
    }
    if (result.empty())
      throw ConfigError(
          fmt::format("{}: no backend is available; for the reasons run assay list backends", row.where));
    return result;
  }

  // Whether a backend that nobody named has a row for this cell: a runtime has only those that it can infer.
  static bool takes_part(const BackendDescription& backend, const Cell& cell) {
    if (!contains(backend.tasks, cell.axes.task) || !contains(backend.devices, cell.axes.device))
      return false;
    return backend.kind != BackendKind::runtime || cell.status != Status::unsupported;
  }

  // Of those that the backend recommends on the device of the cell, and of its bare ones: the first that it does not refuse.
  // `several`: the row has other backends.
  DefaultModes default_modes(const Subject& subject, const BackendDescription& backend,
                             const OptionValues& point, const OptionValues& values, const ConfigRow& row,
                             bool several) {
    const auto first = [&](const Names& modes, const std::string& otherwise) {
      for (const std::string& mode : modes)
        if (!make(subject, backend, mode, point, values, row).refusal()) return mode;
      return otherwise;
    };
    const auto here = backend.recommended_on.find(text_of(point, "device"));
    const bool is_known = here != backend.recommended_on.end();
    return {is_known ? first(here->second, backend.recommended) : backend.recommended,
            several ? first(backend.bare_modes, "") : ""};
  }

  // The base of a ratio is this cell with the axes of `to` changed.
  Published resolved(const ConfigPublished& given, const Subject& subject, const BackendDescription& backend,
                     const std::string& mode, const DefaultModes& defaults, OptionValues point,
                     OptionValues values, const ConfigRow& row) {
    Published published = given.published;
    if (given.to.empty()) return published;
    const auto other = [&](const char* axis, const std::string& own) {
      const auto found = given.to.find(axis);
      return found == given.to.end() ? own : found->second.front();
    };
    const std::string name = other("backend", backend.name);
    const BackendDescription* other_backend = registry_.find(name);
    if (!other_backend) reject_backend(name, row);
    if (given.to.contains("epochs")) values.erase("steps");
    if (given.to.contains("steps")) values.erase("epochs");
    if (device_) point["device"] = {device_for(*other_backend, true)};
    for (const auto& [axis, value] : given.to) point[axis] = values[axis] = value;
    const Subject other_subject = subject_of(other("workload", subject.name()), row);
    // Elsewhere a backend may recommend another mode.
    const bool is_elsewhere = given.to.contains("device") || given.to.contains("task");
    const bool is_default = list_of(values, "mode").empty() && other_backend == &backend &&
                            mode == defaults.recommended && is_elsewhere;
    const std::string base_mode =
        is_default ? default_modes(other_subject, backend, point, values, row, false).recommended
                   : other("mode", mode);
    published.to = make(other_subject, *other_backend, base_mode, point, values, row).id;
    return published;
  }

  [[noreturn]] void reject_backend(const std::string& name, const ConfigRow& row) const {
    Names known;
    for (const BackendDescription& backend : registry_.backends) known.push_back(backend.name);
    std::string hint = suggestion(name, known);
    if (name == "all") hint = "; omit --backend to take all backends";
    if (name.find(' ') != name.npos) hint = "; separate names with commas" + hint;
    throw ConfigError(fmt::format("{}: [backend] got '{}': unknown backend{}", row.where, name, hint));
  }

  Cell make(const Subject& subject, const BackendDescription& backend, const std::string& mode,
            const OptionValues& point, const OptionValues& values, const ConfigRow& row) {
    try {
      Cell cell;
      cell.backend = &backend;
      cell.measure = measure_of(values);
      cell.check = flag_of(values, "check");
      cell.distinct = integer_of(values, "distinct");
      cell.profile = settings_.profile && backend.times_operators;
      cell.axes.workload = subject.name();
      cell.axes.backend = backend.name;
      cell.axes.mode = mode;
      if (subject.op) {
        resolve_op(cell, *subject.op, point);
        cell.program = program_of(*subject.op, cell.axes.size);
        rotate_operands(cell);
      } else {
        resolve_network(cell, *subject.network, point, text_of(values, "scaling") == "weak");
        cell.program = program_of(*subject.network, cell.network().form(cell.axes));
      }
      const std::string launcher = text_of(values, "launcher");
      cell.launcher = launcher.empty() ? backend.launcher : from_word<Launcher>(launcher).value();
      cell.launcher_arguments = text_of(values, "launcher-arguments");
      cell.launcher_prefix = text_of(values, "launcher-prefix");
      cell.rendezvous = text_of(values, "rendezvous");
      if (!cell.rendezvous.empty() && !is_ipv4_address(cell.rendezvous))
        throw ConfigError(fmt::format("{}: [rendezvous] got '{}': must be an IPv4 address, such as 10.0.0.1",
                                      row.where, cell.rendezvous));
      cell.id = cell_id(cell.axes);
      mark_if_not_runnable(cell, workloads_, available_memory_);
      return cell;
    } catch (const ConfigError&) {
      throw;
    } catch (const GraphError& error) {  // the graph cannot be built, or the op does not have the size
      reject(row, error);
    } catch (const IoError& error) {  // the data set's files
      reject(row, error);
    } catch (const DataError& error) {  // the data set, or the augmentation
      reject(row, error);
    }
  }
  [[noreturn]] static void reject(const ConfigRow& row, const std::exception& error) {
    throw ConfigError(fmt::format("{}: {}", row.where, error.what()));
  }

  // Made once for all cells that compute it. Throws GraphError if it cannot be built.
  std::shared_ptr<const Program> program_of(const Workload& workload, const NetworkForm& form) {
    auto& program = networks_[{&workload, form}];
    if (!program) program = std::make_shared<const Program>(workload.build(form));
    return program;
  }
  std::shared_ptr<const Program> program_of(const OpWorkload& op, const std::string& size) {
    auto& program = ops_[{&op, size}];
    if (!program) program = std::make_shared<const Program>(op.program(size));
    return program;
  }

  // weak: each rank has the batch.
  void resolve_network(Cell& cell, const Workload& workload, const OptionValues& point, bool weak) const {
    cell.network().workload = &workload;
    Axes& axes = cell.axes;
    axes.batch = workload.batch;
    axes.dataset = workload.dataset;
    axes.optimizer = workload.optimizer.kind;
    axes.loader = default_loader(cell.measure);
    set_fields(axes, point);
    if (text_of(point, "threads").empty()) {
      // The computation cannot use the threads of the loader.
      const bool loads = axes.loader != LoaderKind::resident;
      const std::int64_t taken = loads ? integer_of(point, "loader-threads") : 0;
      const std::int64_t cores = usable_threads() / std::max<std::int64_t>(1, integer_of(point, "ranks"));
      axes.threads = static_cast<int>(std::max<std::int64_t>(1, cores - taken));
    }
    axes.dataset = find_dataset(axes.dataset).name;
    look_at_own_samples(cell, workload);
    if (axes.loader == LoaderKind::resident) axes.loader_workers = 0;
    axes.measure = cell.measure.epochs > 0 ? fmt::format("epochs:{}", cell.measure.epochs) : "steps";
    if (settings_.quick) shrink(cell);
    resolve_variant(cell, settings_.quick ? shrunk(point, cell) : point);
    if (weak) axes.batch *= axes.ranks();
    if (axes.batch % axes.ranks() != 0)
      throw ConfigError(
          fmt::format("[ranks] got {} with a batch of {}: the batch must be a multiple of the ranks; use "
                      "--batch {}",
                      axes.ranks(), axes.batch, (axes.batch / axes.ranks() + 1) * axes.ranks()));
  }

  void look_at_own_samples(Cell& cell, const Workload& workload) const {
    const Dataset& dataset = find_dataset(cell.axes.dataset);
    if (dataset.made_here() || dataset.classes > 0) return;
    const DatasetPlace place = locate_dataset(dataset, dataset_folders(settings_.data));
    if (!place.here) return;  // the run reports it with the remedy
    auto found = sample_kinds_.find(dataset.name);
    if (found == sample_kinds_.end())
      found = sample_kinds_.emplace(dataset.name, dataset.format->describe(place)).first;
    const SampleKind& kind = found->second;
    cell.network().own_sample_shape = kind.sample_shape.empty() ? workload.sample_shape : kind.sample_shape;
    cell.network().own_classes = kind.classes;
    cell.network().own_positions = kind.positions;
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

  // With --quick an epoch is a few batches, unless the config sets the number of samples.
  static OptionValues shrunk(OptionValues point, const Cell& cell) {
    std::string& samples = point["samples"].front();
    if (samples.empty() && cell.measure.epochs > 0) samples = std::to_string(quick_batches * cell.axes.batch);
    return point;
  }

  void add(Cell cell, const ConfigRow& row) {
    const auto [first, is_new] = rows_.emplace(cell.id, row_);
    if (!is_new) {
      // Two rows may differ only in an option that --quick removes or the command line overrides, such as
      // epochs. The first one stays.
      if (first->second != row_ && (settings_.quick || config_.by_command_line)) return;
      throw ConfigError(fmt::format(
          "{}: the cell {} is a duplicate: remove one of the two, or change an axis", row.where, cell.id));
    }
    expansion_.cells.push_back(std::move(cell));
  }

  const RunConfig& config_;
  const WorkloadRegistry& workloads_;
  const BackendRegistry& registry_;
  RunSettings settings_;
  const std::optional<std::int64_t> available_memory_ = available_memory();
  mutable std::map<std::string, SampleKind>
      sample_kinds_;  // of the own data sets, which may have a million files
  std::map<std::pair<const Workload*, NetworkForm>, std::shared_ptr<const Program>> networks_;
  std::map<std::pair<const OpWorkload*, std::string>, std::shared_ptr<const Program>> ops_;
  Expansion expansion_;
  std::map<std::string, std::size_t> rows_;  // of each cell, by its id
  std::size_t row_ = 0;                      // the one that is being expanded
  std::optional<DeviceKind> device_;         // of that row, if it names none
};

}  // namespace

bool seeks_best(const RunConfig& config) {
  return std::any_of(config.rows.begin(), config.rows.end(), [&](const ConfigRow& row) {
    return contains(list_of(row_values(config, row), "mode"), best_mode);
  });
}

Expansion expand(const RunConfig& config, const Registries& registries) {
  return Expander(config, registries).run();
}

}  // namespace assay
