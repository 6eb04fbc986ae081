#include "harness/cli/report_files.hpp"

#include <nlohmann/json.hpp>

#include "harness/report/report_json.hpp"
#include "harness/report/strict_json.hpp"

namespace assay::cli {

nlohmann::json load_json(const std::string& file) {
  return read_strict_json(file == "-" ? "/dev/stdin" : file);
}

Report load_report(const std::string& file) { return report_from_json(load_json(file), file); }

}  // namespace assay::cli
