#include <fmt/format.h>

#include "harness/report/status.hpp"

namespace assay {

std::string reason_reference() {
  std::string table = "| code | status | meaning |\n|---|---|---|\n";
  for (const ReasonInfo& info : reason_table)
    table +=
        fmt::format("| `{}` | `{}` | {} |\n", to_string(info.code), to_string(info.status), info.meaning);
  return table;
}

}  // namespace assay
