#include "harness/conductor/config/cell.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/data/dataset.hpp"
#include "harness/core/error.hpp"
#include "harness/core/text.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/program.hpp"
#include "workloads/imported_network.hpp"

namespace assay {

void set_fields(Axes& axes, const OptionValues& point) {
  for (const auto& [name, values] : point) {
    const Axis* axis = find_axis(name);
    if (axis && axis->has_field() && !values.empty() && !values.back().empty())
      set_axis(*axis, axes, values.back());
  }
}

std::string Cell::group() const {
  return cell_id_without(axes, [](const Axis& axis) { return axis.compared; });
}

int Cell::compute_threads() const { return std::max(1, axes.all_threads() - axes.loader_threads()); }

nlohmann::json OpCell::hyper_parameters(const Axes&) { return nlohmann::json::object(); }

// Only training reads labels. The own samples may have no shape yet, because their files are missing.
void NetworkCell::check_labels(const Dataset& dataset, const Axes& axes) const {
  const bool is_known = dataset.classes > 0 || own_classes > 0;
  const std::int64_t positions = dataset.classes > 0 ? dataset.positions : own_positions;
  const bool are_read = is_known && axes.task == Task::train;
  if (dataset.next_token == workload->next_token && (!are_read || positions == workload->positions)) return;
  const auto kind = [](bool next, std::int64_t labels) {
    return next         ? std::string("the next token at every position")
           : labels > 0 ? fmt::format("labels of the shape (N, {})", labels)
                        : std::string("one label a sample");
  };
  std::string remedy;
  if (workload->positions == 0 && !workload->next_token && positions > 0)
    remedy = positions == 1 ? " (labels.reshape(-1))"
                            : " (labels.argmax(axis=1) if each row has a one at its class)";
  throw GraphError(fmt::format("[{}] got the data set {}, which has {}; use one that has {}{}", axes.workload,
                               axes.dataset, kind(dataset.next_token, positions),
                               kind(workload->next_token, workload->positions), remedy));
}

NetworkForm NetworkCell::form(const Axes& axes) const {
  NetworkForm form = workload->form(axes.batch, axes.task);
  form.sparse_embedding_gradients = sparse_embedding;
  if (axes.task == Task::train && form.optimizer.kind != axes.optimizer)
    form.optimizer = {.kind = axes.optimizer};
  form.optimizer.weight_decay = weight_decay;
  form.optimizer.clip_norm = clip_norm;
  if (epsilon > 0) form.optimizer.epsilon = epsilon;
  form.norm_momentum = norm_momentum;
  form.recompute = axes.text("recompute");
  const Dataset& dataset = find_dataset(axes.dataset);
  if (!dataset.made_here()) check_labels(dataset, axes);
  if (dataset.made_here() || dataset.classes == 0) {
    // Use the sample shape of the workload if nothing else is known (the files of the data set are missing,
    // so the cell will not run).
    if (!own_sample_shape.empty()) form.sample = own_sample_shape;
    if (image_size > 0) form.sample = {form.sample.front(), image_size, image_size};
    if (sequence_length > 0) form.sample = {sequence_length};
    const std::int64_t said = dataset.made_here() ? classes : own_classes;
    if (said > 0) form.classes = said;
    return form;
  }
  if (dataset.vocabulary != workload->vocabulary) {
    const auto kind = [](std::int64_t vocabulary) {
      return vocabulary > 0 ? fmt::format("texts of {} words", vocabulary) : std::string("images");
    };
    throw GraphError(fmt::format("[{}] got the data set {} of {}; use a data set of {}", axes.workload,
                                 axes.dataset, kind(dataset.vocabulary), kind(workload->vocabulary)));
  }
  form.sample = dataset.sample_shape;
  form.classes = dataset.classes;
  return form;
}

nlohmann::json NetworkCell::hyper_parameters(const Axes& axes) const {
  nlohmann::json found = nlohmann::json::object();
  if (axes.task != Task::train || axes.optimizer.empty()) return found;
  found["learning_rate"] = learning_rate;
  found["schedule"] = schedule.text();
  found["augmentation"] = augmentation.text();
  const OptimizerSpec optimizer = form(axes).optimizer;
  const nlohmann::json all = to_json(optimizer);
  found["optimizer"] = {{"kind", axes.optimizer}};
  for (const std::string& name : optimizer.constants()) found["optimizer"][name] = all.at(name);
  return found;
}

Program Cell::build() const {
  if (const auto* one = std::get_if<NetworkCell>(&subject)) return one->workload->build(one->form(axes));
  return std::get<OpCell>(subject).op->program(axes.size);
}
std::optional<InitialScheme> Cell::initial_scheme() const {
  const auto* network = std::get_if<NetworkCell>(&subject);
  if (!network || network->initial.empty()) return std::nullopt;
  return network->initial == "own" ? backend->initial : from_word<InitialScheme>(network->initial);
}
bool Cell::reads_dataset() const { return !packs_inputs(*program); }
bool Cell::has_roofline() const {
  return std::visit([](const auto& one) { return one.has_roofline; }, subject);
}
bool Cell::has_loss() const {
  return std::visit([&](const auto& one) { return one.has_loss(axes); }, subject);
}
nlohmann::json Cell::hyper_parameters() const {
  return std::visit([&](const auto& one) { return one.hyper_parameters(axes); }, subject);
}

std::int64_t least_memory(const Program& program, Task task) {
  std::int64_t kept = 0, largest = 0;
  for (const Value& value : program.graph(task).values()) {
    if (value.role == Role::parameter || value.role == Role::state)
      kept += value.type.bytes();
    else
      largest = std::max(largest, value.type.bytes());
  }
  const std::int64_t copies = 2 + (program.trains(task) ? 1 + std::ssize(program.moments()) : 0);
  return copies * kept + largest;
}

namespace {

template <typename T>
bool is_among(const T& value, const std::vector<T>& listed) {
  return listed.empty() || contains(listed, value);
}
bool is_as_asked(std::optional<bool> asked, bool found) { return !asked || *asked == found; }

bool has_op(const Graph& graph, const std::vector<std::string>& names) {
  return names.empty() || std::ranges::any_of(graph.nodes(), [&](const Node& node) {
           return contains(names, node.op->name());
         });
}
bool has_other_op(const Graph& graph, const std::vector<std::string>& names) {
  return names.empty() || !std::ranges::all_of(graph.nodes(), [&](const Node& node) {
           return contains(names, node.op->name());
         });
}
bool has_row_sparse_gradient(const Graph& graph) {
  return std::ranges::any_of(
      graph.nodes(), [](const Node& node) { return node.attributes.get_or("sparse_gradient", false); });
}
// Whether images are decoded while they are read, because they are brought to the requested size.
bool decodes_images(const Axes& axes) {
  return !axes.is_op() && !find_dataset(axes.dataset).made_here() &&
         find_dataset(axes.dataset).any_image_size();
}

}  // namespace

const Refusal* Cell::refusal() const {
  const Graph& graph = program->graph(axes.task);
  const std::string optimizer = program->optimizer ? program->optimizer->kind : "";
  const bool decays = program->optimizer && program->optimizer->weight_decay > 0;
  const auto* network_cell = std::get_if<NetworkCell>(&subject);
  const bool onnx_file = network_cell != nullptr && network_cell->workload->imported &&
                         network_cell->workload->imported->has_original();
  const auto holds = [&](const Refusal& rule) {
    return is_among(axes.task, rule.tasks) && is_among(axes.device, rule.devices) &&
           is_among(axes.mode, rule.modes) && is_among(axes.precision, rule.precisions) &&
           is_among(axes.layout, rule.layouts) && is_among(axes.loader, rule.loaders) &&
           is_among(axes.text("recompute"), rule.recompute) && is_among(optimizer, rule.optimizers) &&
           has_op(graph, rule.ops) && has_other_op(graph, rule.other_ops) &&
           is_as_asked(rule.single_ops, program->is_op()) &&
           is_as_asked(rule.row_sparse, has_row_sparse_gradient(graph)) &&
           is_as_asked(rule.weight_decay, decays) && is_as_asked(rule.encoded_images, decodes_images(axes)) &&
           is_as_asked(rule.several_ranks, axes.ranks() > 1) && is_as_asked(rule.onnx_file, onnx_file);
  };
  const auto found = std::ranges::find_if(backend->refusals, holds);
  return found == backend->refusals.end() ? nullptr : &*found;
}

namespace {

// The options of the settings that are not the default.
std::string measure_options(const Cell& cell) {
  const MeasurePlan& plan = cell.measure;
  const MeasurePlan usual;
  std::string line;
  const auto add = [&](const char* option, auto value, auto otherwise) {
    if (value != otherwise) line += fmt::format(" --{} {}", option, value);
  };
  if (plan.epochs == 0) {
    add("warm-up-steps", plan.warm_up_steps, usual.warm_up_steps);
    add("warm-up-seconds", plan.warm_up_seconds, usual.warm_up_seconds);
    if (plan.steps > 0) add("block-seconds", plan.block_seconds, usual.block_seconds);
    // The cache of a single op decides how many sets of operands there are.
    if (!cell.axes.is_op()) add("resident-batches", plan.resident_batches, usual.resident_batches);
  }
  if (cell.check) add("distinct", cell.distinct, Cell().distinct);
  if (!cell.check) line += " --check=false";
  if (cell.profile) line += " --profile";
  if (cell.axes.ranks() > 1) {
    add("launcher", to_string(cell.launcher), to_string(cell.backend->launcher));
    if (!cell.launcher_arguments.empty())
      line += fmt::format(" --launcher-arguments '{}'", cell.launcher_arguments);
    if (!cell.launcher_prefix.empty()) line += fmt::format(" --launcher-prefix '{}'", cell.launcher_prefix);
    add("rendezvous", cell.rendezvous, Cell().rendezvous);
  }
  return line;
}

// The options of the run that decide what the cell computes, from which files, and whether it may end.
std::string run_options(const Cell& cell, const RunSettings& settings) {
  const RunSettings usual;
  std::string line;
  const auto add = [&](const char* option, const std::string& value) {
    line += fmt::format(" --{} {}", option, shell_word(value));
  };
  if (cell.reads_dataset())
    for (const std::filesystem::path& folder : settings.data) add("data", folder.string());
  if (!settings.weights.empty()) add("weights", settings.weights.string());
  for (const auto& [name, value] : settings.environment) add("environment", name + "=" + value);
  if (settings.time_limit != usual.time_limit) add("time-limit", fmt::format("{}", settings.time_limit));
  if (settings.roofline != usual.roofline) add("roofline", settings.roofline);
  return line;
}

}  // namespace

std::string Cell::reproduce(const RunSettings& settings, std::uint64_t seed) const {
  Axes named = axes;
  if (const auto* one = std::get_if<NetworkCell>(&subject); one != nullptr && one->workload->imported) {
    named.workload = one->workload->imported->text();
  }
  std::string line = "assay run" + axis_options(named);
  if (backend && !backend->interpreter.empty())
    line += " --interpreter " + shell_word(backend->framework + "=" + backend->interpreter);
  if (measure.epochs > 0) {
    line += fmt::format(" --epochs {}", measure.epochs);
  } else if (measure.steps > 0) {
    line += fmt::format(" --steps {}", measure.steps);
  } else {
    line += fmt::format(" --blocks {} --block-seconds {:g}", measure.blocks, measure.block_seconds);
  }
  return line + measure_options(*this) + run_options(*this, settings) +
         fmt::format(" --forks 1 --seed {}", seed);
}

}  // namespace assay
