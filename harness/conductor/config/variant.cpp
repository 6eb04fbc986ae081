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
std::string spelt(double value) { return fmt::format("{}", value); }

// One axis: what the workload has, and what a value does to the cell. apply() returns the one spelling of it.
struct Rule {
  std::string_view option;
  bool training = false;  // without meaning for task infer
  std::string (*own)(const Workload& workload);
  std::string (*apply)(Cell& cell, const std::string& value);
};

std::string set_schedule(Cell& cell, const std::string& value) {
  cell.schedule = RateSchedule::parse(value);
  if (cell.schedule.lacks_epochs() && cell.measure.epochs == 0) {
    throw ConfigError(fmt::format(
        "[schedule] got '{}': a run of steps has no number of epochs; say it, as in cosine:200, or --epochs",
        value));
  }
  return cell.schedule.text();
}

std::string set_augmentation(Cell& cell, const std::string& value) {
  cell.augmentation = Augmentation::parse(value);
  const Shape& sample = find_workload(cell.axes.workload).sample_shape;
  if (!cell.augmentation.none() && sample.size() != 3)
    throw ConfigError(fmt::format("[augmentation] got '{}': {} takes samples {}, which are no images", value,
                                  cell.axes.workload, to_string(sample)));
  return cell.augmentation.text();
}

std::string set_image_size(Cell& cell, const std::string& value) {
  const Shape& sample = find_workload(cell.axes.workload).sample_shape;
  cell.image_size = static_cast<std::int64_t>(number(value));
  if (cell.image_size == 0) return "0";
  const Dataset& dataset = find_dataset(cell.axes.dataset);
  if (sample.size() != 3)
    throw ConfigError(fmt::format("[image-size] got {}: {} takes samples {}, which are no images", value,
                                  cell.axes.workload, to_string(sample)));
  if (!dataset.any_image_size())
    throw ConfigError(
        fmt::format("[image-size] got {}: the images of {} have the size that they have; take synthetic, "
                    "imagenet or images",
                    value, dataset.name));
  if (cell.image_size == sample.back()) cell.image_size = 0;
  return std::to_string(cell.image_size);
}

std::string set_classes(Cell& cell, const std::string& value) {
  const Dataset& dataset = find_dataset(cell.axes.dataset);
  cell.classes = static_cast<std::int64_t>(number(value));
  if (cell.classes == 0) return "0";
  if (!dataset.made_here())
    throw ConfigError(
        fmt::format("[classes] got {}: {} has the classes that it has; take synthetic", value, dataset.name));
  if (cell.classes == find_workload(cell.axes.workload).classes) cell.classes = 0;
  return std::to_string(cell.classes);
}

std::string nothing_own(const Workload&) { return "0"; }

// Only what reads tokens has an embedding.
bool has_embedding(const Workload& workload) { return workload.vocabulary > 0; }

std::string set_embedding_gradient(Cell& cell, const std::string& value) {
  cell.sparse_embedding = value == "sparse" && has_embedding(find_workload(cell.axes.workload));
  return cell.sparse_embedding ? "sparse" : "dense";
}

constexpr std::array rules{
    Rule{"embedding-gradient", true, [](const Workload&) { return std::string("dense"); },
         set_embedding_gradient},
    Rule{"learning-rate", true, [](const Workload& workload) { return spelt(workload.learning_rate); },
         [](Cell& cell, const std::string& value) {
           cell.learning_rate = number(value);
           return spelt(cell.learning_rate);
         }},
    Rule{"weight-decay", true,
         [](const Workload& workload) { return spelt(workload.optimizer.weight_decay); },
         [](Cell& cell, const std::string& value) {
           cell.weight_decay = number(value);
           return spelt(cell.weight_decay);
         }},
    Rule{"memory-fraction", false, nothing_own,
         [](Cell& cell, const std::string& value) {
           cell.memory_fraction = number(value);
           return spelt(cell.memory_fraction);
         }},
    Rule{"memory-cap", false, nothing_own,
         [](Cell& cell, const std::string& value) {
           cell.memory_cap = number(value);
           return spelt(cell.memory_cap);
         }},
    Rule{"samples", false, nothing_own,
         [](Cell& cell, const std::string& value) {
           cell.samples = static_cast<std::int64_t>(number(value));
           return value;
         }},
    Rule{"image-size", false, nothing_own, set_image_size},
    Rule{"classes", false, nothing_own, set_classes},
    Rule{"schedule", true, [](const Workload& workload) { return workload.schedule; }, set_schedule},
    Rule{"augmentation", true, [](const Workload& workload) { return workload.augmentation; },
         set_augmentation},
};

}  // namespace

bool varies(std::string_view axis, const Workload& workload, std::string_view task) {
  if (axis == "embedding-gradient" && !has_embedding(workload)) return false;
  return std::none_of(rules.begin(), rules.end(), [&](const Rule& rule) {
    return rule.option == axis && rule.training && task == "infer";
  });
}

void settle_variant(Cell& cell, const Workload& workload, const OptionValues& point) {
  for (const Rule& rule : rules) {
    const std::string own = rule.own(workload);
    Cell untouched = cell;
    const std::string own_spelt = rule.apply(untouched, own);
    const std::string given = text_of(point, rule.option);
    const bool asked = !given.empty() && varies(rule.option, workload, cell.axes.task);
    const std::string value = rule.apply(cell, asked ? given : own);
    if (value != own_spelt) cell.axes.variant[std::string(rule.option)] = value;
  }
}

}  // namespace assay
