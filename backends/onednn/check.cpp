#include "backends/onednn/check.hpp"

#include <dnnl_debug.h>
#include <fmt/format.h>

#include <stdexcept>

#include "harness/worker/backend.hpp"

namespace assay::onednn {

void fail(std::string_view call, dnnl_status_t status, std::string_view text, const char* file, int line) {
  std::string_view place = file;
  place.remove_prefix(place.find_last_of('/') + 1);  // npos + 1 is 0
  const std::string what = fmt::format("[oneDNN] {} at {}:{}: {}{}{}", call, place, line,
                                       dnnl_status2str(status), text.empty() ? "" : ", ", text);
  if (status == dnnl_out_of_memory) throw OutOfMemory(what);
  if (status == dnnl_unimplemented) throw Unsupported(what);
  throw std::runtime_error(what);
}

}  // namespace assay::onednn
