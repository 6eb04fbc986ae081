#include "harness/report/report.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include "harness/report/names.hpp"
#include "harness/report/report_json.hpp"

namespace assay {

std::string_view to_string(Status status) {
  for (const auto& [value, name] : status_names)
    if (value == status) return name;
  throw std::logic_error("a status without a name");
}

std::string_view to_string(Hint hint) {
  for (const auto& [value, name] : hint_names)
    if (value == hint) return name;
  throw std::logic_error("a hint without a name");
}

std::string cell_id(const Axes& axes) {
  const auto or_none = [](const std::string& text) { return text.empty() ? std::string("none") : text; };
  std::string id = fmt::format("{}/{}/{}/{}/{}/{}/{}/", axes.workload, axes.backend, axes.device, axes.mode,
                               axes.task, axes.precision, axes.layout);
  // What most cells share, or has no meaning for them, is left out of the id, so that ids stay readable.
  if (axes.is_op()) {
    id += fmt::format("{}/{}/t{}", axes.size, axes.cache, axes.threads);
  } else {
    id += fmt::format("b{}/{}/{}", axes.batch, or_none(axes.dataset), axes.loader);
    if (axes.loader != "resident") id += fmt::format("-w{}", axes.loader_workers);
    id += fmt::format("/{}/t{}", or_none(axes.optimizer), axes.threads);
  }
  if (axes.compile_cache != "cold") id += "/cache-" + axes.compile_cache;
  if (axes.deterministic) id += "/deterministic";
  for (const auto& [option, value] : axes.variant) id += fmt::format("/{}={}", option, value);
  return id + "/" + axes.measure;
}

}  // namespace assay
