// Every report that the project keeps is written back as it was read: what describes the run, the machines, the libraries
// and the profiles. (Metrics and flags are derived again.)
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/core/json/strict_json.hpp"
#include "harness/report/report_json.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool is_report(const fs::path& file) {
  const std::string name = file.filename().string();
  if (!name.ends_with(".json") && !name.ends_with(".json.gz")) return false;
  const Json json = read_strict_json(file);
  return json.is_object() && json.contains("schema") && json["schema"].is_string() &&
         json["schema"].get<std::string>().starts_with("assay-report/");
}

std::vector<fs::path> kept_reports() {
  std::vector<fs::path> found;
  for (const char* folder :
       {"results/samples", "results/baselines", "tests/reports", "tests/data", "tests/cli/data"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(ASSAY_SOURCE_DIR) / folder))
      if (entry.is_regular_file() && is_report(entry.path())) found.push_back(entry.path());
  return found;
}

// The parts that are not derived. Schema 1 had an empty profile in each fork.
Json kept_parts(const Json& report) {
  Json kept{{"run", report["run"]}, {"environment", report["environment"]}};
  kept["environments"] = report.value("environments", Json());
  for (const Json& cell : report["cells"]) {
    Json& row = kept["cells"].emplace_back(Json{{"libraries", cell["libraries"]}});
    for (const Json& fork : cell["forks"])
      row["forks"].push_back({fork.value("libraries", Json()), fork.value("operators", Json::array())});
  }
  return kept;
}

TEST(KeptReports, AreWrittenAsTheyWereRead) {
  const std::vector<fs::path> files = kept_reports();
  EXPECT_GE(files.size(), 20U);
  for (const fs::path& file : files) {
    const Json document = read_strict_json(file);
    const Json written = to_json(report_from(document, file.string()));
    EXPECT_EQ(Json::diff(kept_parts(document), kept_parts(written)), Json::array()) << file;
  }
}

}  // namespace
}  // namespace assay
