#include "harness/report/analysis.hpp"

#include <charconv>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/text.hpp"

namespace assay {
namespace {

std::string loader_words(const Axes& axes) {
  if (axes.loader == LoaderKind::resident) return "batches resident in memory";
  return fmt::format("{} loader", to_string(axes.loader)) +
         (axes.loader_workers > 0 ? " with " + plural(axes.loader_workers, "worker") : "");
}

std::string measure_words(std::string_view measure) {
  constexpr std::string_view epochs = "epochs:";
  if (!measure.starts_with(epochs)) return "steps";
  int count = 0;
  std::from_chars(measure.data() + epochs.size(), measure.data() + measure.size(), count);
  return plural(count, "epoch");
}

std::string joined(const Axes& axes, std::vector<std::string> words) {
  if (axes.deterministic) words.emplace_back("deterministic");
  for (const auto& [option, value] : axes.variant)
    if (const Axis* axis = find_axis(option); axis == nullptr || axis->is_in_titles())
      words.push_back(option + " " + value);
  std::erase_if(words, [](const std::string& word) { return word.empty(); });
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string machine_words(const Axes& axes) {
  return fmt::format("{}, {}", to_string(axes.device), plural(axes.threads, "thread"));
}

// The title does not mention fp32, because it is the default.
std::string titled(const Axes& axes, std::string_view task) {
  std::string title = fmt::format("{}, {}", axes.workload, task);
  if (axes.precision != PrecisionKind::fp32) title += fmt::format(", {}", to_string(axes.precision));
  return title;
}

Heading op_heading(const Axes& axes) {
  return {titled(axes, axes.task == Task::train ? "forward and backward" : "forward"),
          joined(axes, {axes.text("precision"), machine_words(axes), axes.text("cache") + " cache"})};
}

std::string_view task_words(Task task) {
  switch (task) {
    case Task::train:
      break;
    case Task::infer:
      return "prediction";
    case Task::decode:
      return "decoding";
  }
  return "training";
}

Heading network_heading(const Axes& axes, std::string_view batch) {
  std::string title = titled(axes, fmt::format("{}{}", task_words(axes.task), batch));
  if (axes.device != DeviceKind::cpu) title += fmt::format(", on {}", to_string(axes.device));
  return {title, joined(axes, {axes.text("precision"), axes.dataset, axes.optimizer, machine_words(axes),
                               loader_words(axes), measure_words(axes.measure)})};
}

// The heading of a single op has no batch.
Heading heading(const Axes& axes, std::string_view batch) {
  return axes.is_op() ? op_heading(axes) : network_heading(axes, batch);
}

}  // namespace

Heading group_heading(const Axes& axes) { return heading(axes, fmt::format(", batch {}", axes.batch)); }
Heading family_heading(const Axes& axes) { return heading(axes, ""); }

}  // namespace assay
