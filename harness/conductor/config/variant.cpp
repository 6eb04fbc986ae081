#include "harness/conductor/config/variant.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "harness/conductor/data/dataset.hpp"

namespace assay {
namespace {

double number(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}
std::string text_of_number(double value) { return fmt::format("{}", value); }

// An axis whose default is the value of the workload, or that some workloads or data sets do not support.
// apply() sets the cell's field and returns the canonical text of the value.
struct Rule {
  std::string_view option;
  std::string (*own)(const Workload& workload);
  std::string (*apply)(Cell& cell, const std::string& value);
};

std::string set_schedule(Cell& cell, const std::string& value) {
  cell.network().schedule = RateSchedule::parse(value);
  if (cell.network().schedule.lacks_epochs() && cell.measure.epochs == 0) {
    throw ConfigError(fmt::format(
        "[schedule] got '{}': a run of steps has no number of epochs; add it, as in cosine:200, or use --epochs",
        value));
  }
  return cell.network().schedule.text();
}

std::string set_augmentation(Cell& cell, const std::string& value) {
  cell.network().augmentation = Augmentation::parse(value);
  const Shape& sample = cell.network().workload->sample_shape;
  if (!cell.network().augmentation.none() && sample.size() != 3)
    throw ConfigError(fmt::format("[augmentation] got '{}': applies only to images, and {} takes samples {}",
                                  value, cell.axes.workload, to_string(sample)));
  return cell.network().augmentation.text();
}

// The shapes in the file of an imported network are those of its samples.
void reject_if_imported(const Cell& cell, const char* option, const std::string& value) {
  if (!cell.network().workload->imported) return;
  throw ConfigError(
      fmt::format("[{}] got {}: {} was imported with samples {} and {} classes; import it with other shapes",
                  option, value, cell.axes.workload, to_string(cell.network().workload->sample_shape),
                  cell.network().workload->classes));
}

std::string set_image_size(Cell& cell, const std::string& value) {
  const Shape& sample = cell.network().workload->sample_shape;
  cell.network().image_size = static_cast<std::int64_t>(number(value));
  if (cell.network().image_size == 0) return "0";
  reject_if_imported(cell, "image-size", value);
  const Dataset& dataset = find_dataset(cell.axes.dataset);
  if (sample.size() != 3)
    throw ConfigError(fmt::format("[image-size] got {}: applies only to images, and {} takes samples {}",
                                  value, cell.axes.workload, to_string(sample)));
  if (!dataset.any_image_size())
    throw ConfigError(
        fmt::format("[image-size] got {}: the images of {} have a fixed size; use synthetic, imagenet or "
                    "images",
                    value, dataset.name));
  if (cell.network().image_size == sample.back()) cell.network().image_size = 0;
  return std::to_string(cell.network().image_size);
}

std::string set_sequence_length(Cell& cell, const std::string& value) {
  const Workload& workload = *cell.network().workload;
  cell.network().sequence_length = static_cast<std::int64_t>(number(value));
  if (cell.network().sequence_length == 0) return "0";
  reject_if_imported(cell, "sequence-length", value);
  const Dataset& dataset = find_dataset(cell.axes.dataset);
  if (!workload.is_sequence())
    throw ConfigError(
        fmt::format("[sequence-length] got {}: applies only to sequences, and {} takes samples {}", value,
                    cell.axes.workload, to_string(workload.sample_shape)));
  if (!dataset.any_sequence_length())
    throw ConfigError(
        fmt::format("[sequence-length] got {}: the samples of {} have a fixed length; use synthetic{}", value,
                    dataset.name, workload.next_token ? " or text" : ""));
  if (cell.network().sequence_length == workload.sample_shape.front()) cell.network().sequence_length = 0;
  return std::to_string(cell.network().sequence_length);
}

std::string set_classes(Cell& cell, const std::string& value) {
  const Dataset& dataset = find_dataset(cell.axes.dataset);
  cell.network().classes = static_cast<std::int64_t>(number(value));
  if (cell.network().classes == 0) return "0";
  reject_if_imported(cell, "classes", value);
  if (!dataset.made_here())
    throw ConfigError(fmt::format("[classes] got {}: the number of classes of {} is fixed; use synthetic",
                                  value, dataset.name));
  if (cell.network().classes == cell.network().workload->classes) cell.network().classes = 0;
  return std::to_string(cell.network().classes);
}

std::string nothing_own(const Workload&) { return "0"; }

std::string set_epsilon(Cell& cell, const std::string& value) {
  double& epsilon = cell.network().epsilon;
  epsilon = number(value);
  if (epsilon == 0) return "0";
  if (cell.axes.optimizer == "sgd")
    throw ConfigError(fmt::format("[epsilon] got {}: sgd has no epsilon; use another --optimizer", value));
  const OptimizerSpec& own = cell.network().workload->optimizer;
  if (epsilon == (own.kind == cell.axes.optimizer ? own : OptimizerSpec{}).epsilon) epsilon = 0;
  return text_of_number(epsilon);
}

std::string set_norm_momentum(Cell& cell, const std::string& value) {
  cell.network().norm_momentum = number(value);
  return text_of_number(cell.network().norm_momentum);
}

std::string set_initial(Cell& cell, const std::string& value) {
  cell.network().initial = value == "workload" ? "" : value;
  return value;
}

std::string set_pixels(Cell& cell, const std::string& value) {
  const Shape& sample = cell.network().workload->sample_shape;
  cell.network().raw_pixels = value == "raw";
  if (cell.network().raw_pixels && sample.size() != 3)
    throw ConfigError(fmt::format("[pixels] got raw: applies only to images, and {} takes samples {}",
                                  cell.axes.workload, to_string(sample)));
  return value;
}

// Only workloads that read tokens have an embedding. The table of one that predicts the next token is also the
// weight of its last layer, so that its gradient is dense. The tables of an imported one may have other readers, too.
bool has_embedding(const Workload& workload) {
  return workload.vocabulary > 0 && !workload.next_token && !workload.imported;
}

std::string set_embedding_gradient(Cell& cell, const std::string& value) {
  cell.network().sparse_embedding = value == "sparse" && has_embedding(*cell.network().workload);
  return cell.network().sparse_embedding ? "sparse" : "dense";
}

constexpr std::array rules{
    Rule{"embedding-gradient", [](const Workload&) { return std::string("dense"); }, set_embedding_gradient},
    Rule{"learning-rate", [](const Workload& workload) { return text_of_number(workload.learning_rate); },
         [](Cell& cell, const std::string& value) {
           cell.network().learning_rate = number(value);
           return text_of_number(cell.network().learning_rate);
         }},
    Rule{"weight-decay",
         [](const Workload& workload) { return text_of_number(workload.optimizer.weight_decay); },
         [](Cell& cell, const std::string& value) {
           cell.network().weight_decay = number(value);
           return text_of_number(cell.network().weight_decay);
         }},
    Rule{"clip-norm", [](const Workload& workload) { return text_of_number(workload.optimizer.clip_norm); },
         [](Cell& cell, const std::string& value) {
           cell.network().clip_norm = number(value);
           return text_of_number(cell.network().clip_norm);
         }},
    Rule{"epsilon", nothing_own, set_epsilon},
    Rule{"norm-momentum", nothing_own, set_norm_momentum},
    Rule{"initial", [](const Workload&) { return std::string("workload"); }, set_initial},
    Rule{"pixels", [](const Workload&) { return std::string("scaled"); }, set_pixels},
    Rule{"image-size", nothing_own, set_image_size},
    Rule{"sequence-length", nothing_own, set_sequence_length},
    Rule{"classes", nothing_own, set_classes},
    Rule{"schedule", [](const Workload& workload) { return workload.schedule; }, set_schedule},
    Rule{"augmentation", [](const Workload& workload) { return workload.augmentation; }, set_augmentation},
};

// nullptr if the table of axes fully describes the axis.
const Rule* find_rule(std::string_view option) {
  const auto found = std::ranges::find(rules, option, &Rule::option);
  return found == rules.end() ? nullptr : &*found;
}

void resolve_by_rule(Cell& cell, const Axis& axis, const Rule& rule, const Workload& workload,
                     const std::string& given) {
  const std::string own = rule.own(workload);
  Cell untouched = cell;
  const std::string own_text = rule.apply(untouched, own);
  const std::string value = rule.apply(cell, given.empty() ? own : given);
  if (value != own_text) set_axis(axis, cell.axes, value);
}

}  // namespace

bool varies(const Axis& axis, const Workload* workload, const Axes& axes) {
  if (axis.name() == "embedding-gradient" && workload && !has_embedding(*workload)) return false;
  return axis.matters_to(axes);
}

void resolve_variant(Cell& cell, const OptionValues& point) {
  const auto* network = std::get_if<NetworkCell>(&cell.subject);
  const Workload* const workload = network ? network->workload : nullptr;
  for (const Axis& axis : axis_table()) {
    if (axis.has_field() || !axis.applies_to(cell.axes.kind())) continue;
    const std::string given = varies(axis, workload, cell.axes) ? text_of(point, axis.name()) : "";
    const Rule* rule = workload ? find_rule(axis.name()) : nullptr;
    if (rule)
      resolve_by_rule(cell, axis, *rule, *workload, given);
    else if (!given.empty())
      set_axis(axis, cell.axes, given);
  }
}

}  // namespace assay
