#include <fmt/format.h>

#include "harness/report/status.hpp"

namespace assay {

std::string reason_reference() {
  std::string page =
      "# Reason codes\n\n"
      "<!-- Made from harness/report/status.hpp: `ASSAY_WRITE_DOCS=1 build/dev/report_test "
      "--gtest_filter='ReasonCodes.*'` writes it. -->\n\n"
      "A fork or a cell whose status is not `ok` has a reason: `reason` is a text for people, `reason_code` a code for "
      "programs.\n"
      "A code keeps its meaning from release to release, and belongs to one status.\n"
      "The text may change in any release.\n\n"
      "| code | status | meaning |\n"
      "|---|---|---|\n";
  for (const ReasonInfo& info : reason_table)
    page += fmt::format("| `{}` | `{}` | {} |\n", to_string(info.code), to_string(info.status), info.meaning);
  return page;
}

}  // namespace assay
