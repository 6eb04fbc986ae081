#include "harness/conductor/config/execution_axes.hpp"

#include "harness/machine/cores.hpp"

namespace assay {

std::string axis_or(const OptionValues& point, std::string_view axis, const std::string& fallback) {
  const std::string text = text_of(point, axis);
  return text.empty() ? fallback : text;
}

void settle_execution(Axes& axes, const OptionValues& point, const std::string& task) {
  axes.device = axis_or(point, "device", "cpu");
  axes.task = axis_or(point, "task", task);
  axes.precision = axis_or(point, "precision", "fp32");
  axes.layout = axis_or(point, "layout", "native");
  axes.threads = std::stoi(axis_or(point, "threads", std::to_string(usable_cores().size())));
  axes.compile_cache = axis_or(point, "compile-cache", "cold");
  axes.deterministic = axis_or(point, "deterministic", "false") == "true";
}

}  // namespace assay
