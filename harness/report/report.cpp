#include "harness/report/report.hpp"

#include <stdexcept>

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

}  // namespace assay
