#include "harness/report/analysis.hpp"

#include <charconv>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace assay {
namespace {

std::string plural(int count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string task_words(const Axes& axes) {
  if (axes.task == "train") return axes.is_op() ? "forward and backward" : "training";
  if (axes.task == "infer") return axes.is_op() ? "forward" : "prediction";
  return axes.task;
}

std::string loader_words(const Axes& axes) {
  if (axes.loader == "resident") return "batches resident in memory";
  return axes.loader + " loader" +
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
  if (axes.compile_cache != "cold" && !axes.compile_cache.empty())
    words.push_back(axes.compile_cache + " compile cache");
  if (axes.deterministic) words.emplace_back("deterministic");
  for (const auto& [option, value] : axes.variant) words.push_back(option + " " + value);
  std::erase_if(words, [](const std::string& word) { return word.empty(); });
  return fmt::format("{}", fmt::join(words, ", "));
}

Heading heading(const Axes& axes, const std::string& batch) {
  const std::string machine = axes.device + ", " + plural(axes.threads, "thread");
  std::string title = axes.workload + ", " + task_words(axes) + batch;
  if (axes.precision != "fp32") title += ", " + axes.precision;
  if (axes.is_op()) return {title, joined(axes, {axes.precision, machine, axes.cache + " cache"})};
  if (axes.device != "cpu") title += ", on " + axes.device;
  return {title, joined(axes, {axes.precision, axes.dataset, axes.optimizer, machine, loader_words(axes),
                               measure_words(axes.measure)})};
}

}  // namespace

Heading group_heading(const Axes& axes) {
  return heading(axes, axes.is_op() ? "" : fmt::format(", batch {}", axes.batch));
}

Heading family_heading(const Axes& axes) { return heading(axes, ""); }

}  // namespace assay
