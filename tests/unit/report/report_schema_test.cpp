// The generated schema and the decoder accept and refuse the same documents.
#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>

#include "harness/core/json/strict_json.hpp"
#include "harness/report/report_json.hpp"
#include "tests/unit/report/sample_report.hpp"
#include "tests/unit/report/schema_check.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

// With every optional part.
Json full_report() {
  Report report = test::sample_report(1);
  CellReport& cell = report.cells[0];
  cell.work = {.flops = 1, .bytes = 2, .peak_flops = 3, .copy_bandwidth = 4};
  cell.hyper_parameters = {{"learning_rate", 0.001}};
  cell.settings = {{"blocks", 10}};
  cell.axes.variant = {{"schedule", "constant"}};
  cell.equivalence.ties = {{.op = "relu", .tipped = 1, .elements = 2}};
  cell.equivalence.settings = CheckSettings{.seed = 1, .distinct = 8, .perturbations = 4, .version = 2};
  Fork& fork = cell.forks[0];
  fork.start = "2026-01-02T03:04:05Z";
  fork.order = 0;
  fork.session = 0;
  fork.steady = true;
  fork.reason = "none";
  fork.flags = {"disturbed"};
  fork.placement = CorePlacement{.before = {1, 50}, .after = {1, 50}};
  fork.warnings = {"w"};
  fork.latencies_ns = {1, 2};
  fork.latencies_seen = 2;
  fork.variables = {{"OMP_WAIT_POLICY", "passive"}};
  fork.libraries = cell.libraries;
  fork.operators = {{.node = "n", .op = "relu", .seconds = 0.5, .calls = 3}};
  fork.gpu.emplace().foreign = {{1, "x", 5}};
  GpuReading& reading = fork.samples[0].gpu.emplace();
  reading.utilisation = 0.5;
  reading.worker_memory = 1;
  reading.throttle = std::vector<std::string>{"a"};
  report.run.sessions = {{.start = "2026-01-02T03:04:05Z",
                          .commit = "abc",
                          .version = "1",
                          .boot_id = "b",
                          .variables = {{"OMP_DYNAMIC", "FALSE"}}}};
  report.run.settings = {.forks = 3, .seed = 1, .max_time = 0.5, .weights = std::nullopt};
  report.environment.cpu.caches =
      std::vector<CacheRecord>{{.level = 1, .type = "Data", .bytes = 32768, .line_bytes = std::nullopt}};
  report.environment.clock.cost_ns = 20.5;
  report.environment.gpus = std::vector<GpuRecord>{{.index = 0, .model = std::nullopt}};
  report.environments = {report.environment};
  cell.environment = 0;
  report.run.shard = Shard{.index = 1, .count = 2};
  report.run.merged =
      Merged{.count = 2, .shards = {{.start = "2026-01-02T03:04:05Z", .command_line = {"assay", "run"}}}};
  report.cells.resize(1);
  return to_json(report);
}

bool accepted_by_decoder(const Json& json) {
  std::vector<std::string> violations;
  report_from(json, "r.json", false, violations);
  return violations.empty();
}
bool accepted_by_schema(const Json& json) { return test::schema_violations(json).empty(); }

// Every value of the document, by its pointer; free-form JSON is not entered.
void collect(const Json& json, const Json::json_pointer& at, std::vector<Json::json_pointer>& out) {
  for (const auto& [key, value] : json.items()) {
    const auto here = json.is_array() ? at / static_cast<std::size_t>(std::stoul(key)) : at / key;
    out.push_back(here);
    const bool is_of_cell = json.contains("reproduce");
    const bool free = key == "config" || key == "hyper_parameters" || (key == "settings" && is_of_cell);
    if (value.is_structured() && !free) collect(value, here, out);
  }
}

const std::set<std::string> column_tables{"blocks", "evaluations", "samples", "tensors"};

TEST(ReportSchema, agrees_with_the_decoder_on_every_mutation) {
  const Json good = full_report();
  ASSERT_TRUE(accepted_by_decoder(good));
  ASSERT_TRUE(accepted_by_schema(good)) << test::schema_violations(good).front();
  std::vector<Json::json_pointer> places;
  collect(good, Json::json_pointer(), places);
  const std::vector<Json> values{nullptr,       true,           -1,         0.5, "", "text", "nan",
                                 Json::array(), Json::object(), {"a", "a"}, 2};
  int refused = 0, tried = 0;
  const auto agree = [&](const Json& json, const std::string& what) {
    const bool decoder = accepted_by_decoder(json);
    EXPECT_EQ(decoder, accepted_by_schema(json)) << what;
    ++tried;
    refused += !decoder;
  };
  for (const auto& place : places) {
    if (place.to_string() == "/schema") continue;  // read first: another one is not a report
    Json json = good;
    const bool inner = !place.parent_pointer().empty();
    Json& parent = json[place.parent_pointer()];
    if (parent.is_object()) {
      parent.erase(place.back());
      agree(json, place.to_string() + " erased");
    }
    for (const Json& value : values) {
      // Draft 7 cannot require the note that gives the reason for a null.
      const Json& before = good[place];
      if (value.is_null() && before.is_number() && !good[place.parent_pointer()].is_array()) continue;
      // Nor for columns of one length.
      if (value.is_array() && inner && column_tables.contains(place.parent_pointer().back())) continue;
      json = good;
      json[place] = value;
      agree(json, place.to_string() + " = " + value.dump());
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(tried - refused, 400);
}

TEST(ReportSchema, is_the_one_in_the_tree) {
  const std::string path = std::string(ASSAY_SOURCE_DIR) + "/results/schema/report-2.schema.json";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), report_schema_text()) << "write it with: assay validate --schema > " << path;
}

}  // namespace
}  // namespace assay
