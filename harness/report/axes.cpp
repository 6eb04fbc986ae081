#include "harness/report/axes.hpp"

#include <fmt/format.h>

namespace assay {

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
