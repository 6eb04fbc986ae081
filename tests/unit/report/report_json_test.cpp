#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/file.hpp"
#include "harness/core/json/strict_json.hpp"
#include "harness/report/invariants.hpp"
#include "harness/report/metrics.hpp"
#include "harness/report/report_json.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/unit/report/sample_report.hpp"
#include "tests/unit/report/schema_check.hpp"

namespace assay {
namespace {

using test::sample_report;
using test::schema_violations;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Report read(const nlohmann::json& json) { return parse_report(json.dump(), "r.json"); }

std::string refusal(const std::string& text) {
  try {
    parse_report(text, "r.json");
  } catch (const JsonError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ReportJson, is_read_back_bit_for_bit) {
  Report report = sample_report();
  report.cells[0].forks[0].evaluations[0].loss = 0.1 + 0.2;
  report.cells[0].forks[0].seed = std::numeric_limits<std::uint64_t>::max();
  report.cells[0].forks[1].log_tail = "line\nwith \"quotes\", \t and \xc3\xa9";
  const std::string text = report_text(report);
  const Report again = parse_report(text, "r.json");
  EXPECT_EQ(report_text(again), text);
  EXPECT_EQ(again.cells[0].metrics, report.cells[0].metrics);
  EXPECT_EQ(again.cells[0].forks[0].evaluations[0].loss, 0.1 + 0.2);
  EXPECT_EQ(again.cells[0].forks[0].seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(again.cells[0].forks[1].log_tail, report.cells[0].forks[1].log_tail);
}

TEST(ReportJson, keeps_gpu_samples_and_reasons_for_missing_ones) {
  Report report = sample_report(1);
  Fork& fork = report.cells[0].forks[0];
  MachineSample sample{.time_ns = 5};
  sample.gpu = GpuReading{.utilisation = 0.5,
                          .worker_memory = 1 << 20,
                          .device_memory = std::nullopt,
                          .sm_clock_hz = 1980e6,
                          .memory_clock_hz = 2619e6,
                          .power_watts = std::nullopt,
                          .energy_joules = 12.5,
                          .temperature_celsius = 41,
                          .throttle = std::vector<std::string>{"sw_power_cap"}};
  fork.samples = {sample, {.time_ns = 6}};
  fork.warnings = {"process 1 (x) used the GPU while steps ran: stop it"};
  fork.gpu = GpuUse{.model = "A Card",
                    .uuid = "GPU-0",
                    .reason = "",
                    .missing = {{"gpu_power_watts", "nvmlDeviceGetPowerUsage: Not Supported (3)"}},
                    .worker_peak = 1 << 20,
                    .device_peak = std::nullopt,
                    .foreign = {{1, "x", std::nullopt}}};
  const auto json = nlohmann::json::parse(report_text(report));
  EXPECT_THAT(schema_violations(json), IsEmpty());
  const nlohmann::json& told = json["cells"][0]["forks"][0]["samples"];
  EXPECT_FALSE(told.contains("gpu_power_watts")) << "no sample has it";
  EXPECT_EQ(told["gpu_utilisation"], nlohmann::json({0.5, nullptr}));
  const Report again = read(json);
  EXPECT_EQ(report_text(again), report_text(report));
  EXPECT_FALSE(again.cells[0].forks[0].samples[1].gpu);
  EXPECT_EQ(again.cells[0].forks[0].gpu->foreign.at(0).name, "x");
}

TEST(ReportJson, keeps_variants_and_reads_reports_without_them) {
  Report report = sample_report(1);
  CellReport& cell = report.cells[0];
  cell.axes.variant = {{"schedule", "every:10x0.9"}};
  cell.id = cell_id(cell.axes);
  cell.hyper_parameters = {{"learning_rate", 0.001}, {"schedule", "every:10x0.9"}};
  EXPECT_THAT(cell.id, HasSubstr("/schedule=every:10x0.9/"));
  auto json = nlohmann::json::parse(report_text(report));
  EXPECT_THAT(schema_violations(json), IsEmpty());
  const Report again = read(json);
  EXPECT_EQ(again.cells[0].axes.variant, cell.axes.variant);
  EXPECT_EQ(again.cells[0].hyper_parameters, cell.hyper_parameters);
  EXPECT_THAT(invariant_violations(again), IsEmpty());
  json["cells"][0]["axes"]["variant"]["schedule"] = "constant";
  EXPECT_THAT(invariant_violations(read(json)), Not(IsEmpty()));

  auto earlier = nlohmann::json::parse(report_text(sample_report(1)));
  EXPECT_FALSE(earlier["cells"][0]["axes"].contains("variant"));
  earlier["cells"][0].erase("hyper_parameters");
  EXPECT_THAT(schema_violations(earlier), IsEmpty());
  EXPECT_THAT(invariant_violations(read(earlier)), IsEmpty());
}

TEST(ReportJson, is_accepted_by_its_own_schema) {
  const auto json = nlohmann::json::parse(report_text(sample_report()));
  EXPECT_THAT(schema_violations(json), IsEmpty());
}

TEST(ReportJson, writes_a_number_that_is_not_finite_as_null_with_its_reason) {
  Report report = sample_report(1);
  report.cells[0].metrics["step_time"].value = std::nan("");
  report.cells[0].forks[0].evaluations[0].loss = std::numeric_limits<double>::infinity();
  report.cells[0].forks[0].blocks[0].loss = std::nan("");
  report.cells[0].forks[0].compile_seconds = -std::numeric_limits<double>::infinity();
  report.environment.clock.cost_ns = std::nan("");
  const std::string text = report_text(report);
  const auto json = nlohmann::json::parse(text);
  EXPECT_TRUE(json["cells"][0]["metrics"]["step_time"]["value"].is_null());
  EXPECT_THAT(json["cells"][0]["metrics"]["step_time"]["reason"].get<std::string>(), HasSubstr("nan"));
  EXPECT_EQ(json["cells"][0]["forks"][0]["evaluations"]["loss"][0], "inf");
  EXPECT_EQ(json["cells"][0]["forks"][0]["compile_seconds"], nullptr);
  EXPECT_EQ(json["cells"][0]["forks"][0]["not_finite"]["compile_seconds"], "-inf");
  EXPECT_EQ(json["environment"]["clock"]["not_finite"]["cost_ns"], "nan");
  EXPECT_THAT(schema_violations(json), IsEmpty());
  const Report again = parse_report(text, "r.json");
  EXPECT_TRUE(std::isinf(again.cells[0].forks[0].evaluations[0].loss));
  EXPECT_TRUE(std::isnan(again.cells[0].forks[0].blocks[0].loss.value()));
  EXPECT_TRUE(std::isinf(again.cells[0].forks[0].compile_seconds));
  EXPECT_EQ(report_text(again), text);
}

TEST(ReportJson, RepairsTextThatIsNotUtf8) {
  Report report = sample_report(1);
  report.cells[0].forks[0].log_tail = "bad \xff byte";
  EXPECT_THAT(parse_report(report_text(report), "r.json").cells[0].forks[0].log_tail,
              HasSubstr("bad \xef\xbf\xbd byte"));
}

TEST(ReportJson, ReadsAStatusOfALaterVersionAsFailed) {
  nlohmann::json later = to_json(sample_report(1));
  later["schema_minor"] = report_schema_minor + 1;
  later["cells"][0]["status"] = "melted";
  later["cells"][0]["kind"] = "oracle of Delphi";
  later["cells"][0]["reason"] = "it was too hot";
  later["cells"][1]["forks"][0]["reason_code"] = "of_tomorrow";
  const Report report = report_from(later, "report.json");
  EXPECT_EQ(report.cells[0].status, Status::failed);
  EXPECT_EQ(report.cells[0].reason, "the status 'melted' of a later version: it was too hot");
  EXPECT_EQ(report.cells[0].kind, BackendKind::framework);
  EXPECT_EQ(report.cells[1].forks[0].reason_code, ReasonCode::absent);
  later["schema_minor"] = report_schema_minor;
  EXPECT_THROW(report_from(later, "report.json"), JsonError) << "this version has no such status";
}

TEST(ReportJson, refuses_a_newer_schema_by_its_name) {
  auto json = to_json(sample_report(1));
  json["schema"] = "assay-report/3";
  EXPECT_THAT(refusal(json.dump()), HasSubstr("r.json: has the schema assay-report/3"));
  json["schema"] = 3;
  EXPECT_THAT(refusal(json.dump()), HasSubstr("not an Assay report"));
}

TEST(ReportJson, names_the_field_that_is_missing_or_of_another_type) {
  auto json = to_json(sample_report(1));
  json["cells"][1]["forks"][0]["blocks"].erase("steps");
  EXPECT_THAT(refusal(json.dump()), HasSubstr("/cells/1/forks/0/blocks: the column \"steps\" is missing"));
  json = to_json(sample_report(1));
  json["cells"][0]["axes"]["batch"] = "200";
  EXPECT_THAT(refusal(json.dump()), HasSubstr("/cells/0/axes/batch: should be an integer, is string"));
  json = to_json(sample_report(1));
  json["cells"][0]["axes"]["loader_workers"] = 1e12;
  EXPECT_THAT(refusal(json.dump()), HasSubstr("loader_workers"));
  json["cells"][0]["axes"]["loader_workers"] = 1'000'000'000'000;
  EXPECT_THAT(refusal(json.dump()), HasSubstr("out of range"));
  json = to_json(sample_report(1));
  json["cells"][0]["status"] = "fine";
  EXPECT_THAT(refusal(json.dump()), HasSubstr("/cells/0/status: \"fine\" is not one of ok, unsupported, "));
  json = to_json(sample_report(1));
  json["environment"]["cpu"]["allowed"] = "two";
  EXPECT_THAT(refusal(json.dump()), HasSubstr("/environment/cpu/allowed: should be an integer, is string"));
  json = to_json(sample_report(1));
  json["run"]["sessions"] = {{{"start", 5}}};
  EXPECT_THAT(refusal(json.dump()), HasSubstr("/run/sessions/0/start: should be text, is number"));
}

TEST(ReportJson, NamesTheAxisAndItsWordsWhenAWordIsUnknown) {
  const std::pair<const char*, std::string> axes[] = {{"device", "cpu, cuda"},
                                                      {"task", "train, infer"},
                                                      {"precision", "fp32, tf32, bf16, fp64"},
                                                      {"loader", "resident, harness, native"},
                                                      {"compile_cache", "cold, warm"},
                                                      {"cache", "cold, warm"}};
  for (const auto& [key, known] : axes) {
    auto json = to_json(sample_report(1));
    for (const char* word : {"tepid", ""}) {
      json["cells"][0]["axes"][key] = word;
      EXPECT_THAT(
          refusal(json.dump()),
          HasSubstr(fmt::format("r.json/cells/0/axes/{}: \"{}\" is not one of {}", key, word, known)));
    }
    json["cells"][0]["axes"][key] = nullptr;
    EXPECT_THAT(refusal(json.dump()),
                HasSubstr(fmt::format("/cells/0/axes/{}: should be text, is null", key)));
  }
}

TEST(ReportJson, KeepsEveryWordOfTheAxes) {
  const auto survives = [](auto Axes::* field, auto value) {
    Report report = sample_report(1);
    report.cells[0].axes.*field = value;
    report.cells[0].id = cell_id(report.cells[0].axes);
    return parse_report(report_text(report), "r.json").cells[0].axes.*field == value;
  };
  for (const auto& word : words<DeviceKind>) EXPECT_TRUE(survives(&Axes::device, word.value)) << word.text;
  for (const auto& word : words<Task>) EXPECT_TRUE(survives(&Axes::task, word.value)) << word.text;
  for (const auto& word : words<PrecisionKind>)
    EXPECT_TRUE(survives(&Axes::precision, word.value)) << word.text;
  for (const auto& word : words<LoaderKind>) EXPECT_TRUE(survives(&Axes::loader, word.value)) << word.text;
  for (const auto& word : words<CacheState>)
    EXPECT_TRUE(survives(&Axes::compile_cache, word.value)) << word.text;
}

TEST(StrictJson, refuses_duplicate_keys_with_their_place) {
  EXPECT_THAT(refusal(R"({"schema": "assay-report/1", "run": {"a": 1, "b": [0, {"c": 1, "c": 2}]}})"),
              HasSubstr("r.json: at run/b/1: duplicate key \"c\""));
}

TEST(StrictJson, refuses_invalid_numbers) {
  for (const char* number : {"NaN", "Infinity", "-Infinity", "nan", "01", "1.", "+1", "0x10"})
    EXPECT_THAT(refusal(std::string(R"({"a": )") + number + "}"), HasSubstr("not valid JSON")) << number;
  EXPECT_THAT(refusal(R"({"a": 1e999})"), HasSubstr("r.json"));
}

TEST(StrictJson, refuses_deep_nesting_without_a_deep_stack) {
  EXPECT_THAT(refusal(std::string(10'000'000, '[')), HasSubstr("nested more than 32 deep"));
}

TEST(StrictJson, refuses_a_text_above_its_limit) {
  EXPECT_THROW(parse_strict_json("[1, 2, 3]", "x", {.bytes = 5}), JsonError);
  EXPECT_NO_THROW(parse_strict_json("[1]", "x", {.bytes = 5}));
  EXPECT_NO_THROW(parse_strict_json("[1, {\"a\": []}]", "x", {.values = 4}));
  EXPECT_THROW(parse_strict_json("[1, {\"a\": []}]", "x", {.values = 3}), JsonError);
}

TEST(StrictJson, refuses_text_cut_off_text_after_the_end_and_bad_utf8) {
  EXPECT_THAT(refusal(R"({"schema": "assay-rep)"), HasSubstr("not valid JSON at line 1, column"));
  EXPECT_THAT(refusal("{\n \"forks\": six\n}"), HasSubstr("at line 2, column 11"));
  EXPECT_THAT(refusal("{} {}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal("\"\xff\""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal("// no\n{}"), HasSubstr("not valid JSON"));
}

TEST(StrictJson, names_a_file_that_is_missing_or_a_folder) {
  EXPECT_THROW(read_strict_json("/no/such/file.json"), JsonError);
  EXPECT_THROW(read_strict_json("/"), JsonError);
}

TEST(StrictJson, ReadsEveryKindOfValue) {
  const std::string text =
      R"({"a": [1, -2, 0.1, 1e3, 18446744073709551615, true, null, "\u00e9\n"], "b": {}})";
  const nlohmann::json expected{
      {"a", {1, -2, 0.1, 1000.0, 18446744073709551615U, true, nullptr, "\xc3\xa9\n"}},
      {"b", nlohmann::json::object()}};
  EXPECT_EQ(parse_strict_json(text, "x"), expected);
}

TEST(StrictJson, RefusesAnIntegerThatNoNumberHoldsAndManyEqualKeys) {
  for (const char* text :
       {"[123456789012345678901234567890]", "[18446744073709551616]", "[-9223372036854775809]"})
    EXPECT_THROW(parse_strict_json(text, "x"), JsonError) << text;
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) many += "\"" + std::to_string(i) + "\": 0, ";
  EXPECT_NO_THROW(parse_strict_json(many + "\"x\": 0}", "x"));
  EXPECT_THROW(parse_strict_json(many + "\"7\": 0}", "x"), JsonError);
}

TEST(StrictJson, ReadsACompressedFileWhateverItsName) {
  const TemporaryFolder folder;
  const std::string text = report_text(sample_report());
  for (const char* name : {"report.json.gz", "report.json"}) {
    write_gzip(folder / name, text);
    EXPECT_LT(std::filesystem::file_size(folder / name), text.size() / 2);
    EXPECT_EQ(report_text(read_report(folder / name)), text) << name;
  }
}

TEST(StrictJson, NamesACompressedFileThatIsCutOrInflatesToTooMuch) {
  const TemporaryFolder folder;
  const auto said = [&](JsonLimits limits) -> std::string {
    try {
      read_strict_json(folder / "report.json.gz", limits);
    } catch (const JsonError& error) {
      return error.what();
    }
    return "accepted";
  };
  write_gzip(folder / "report.json.gz", "[" + std::string(1 << 20, ' ') + "]");
  EXPECT_EQ(said({}), "accepted");
  EXPECT_THAT(said({1 << 20, 32}), HasSubstr("report.json.gz: inflates to more than 1048576 bytes"));
  const std::string whole = read_text(folder / "report.json.gz");
  write_atomically(folder / "report.json.gz", whole.substr(0, whole.size() / 2), false);
  EXPECT_THAT(said({}), HasSubstr("report.json.gz: is truncated"));
}

TEST(ReportJson, reads_version_1) {
  for (const char* name : {"1-first.json", "1-epochs-and-ops.json"}) {
    const Report report = read_report(std::string(ASSAY_SOURCE_DIR) + "/tests/reports/" + name);
    EXPECT_EQ(report.schema, first_report_schema);
    EXPECT_THAT(invariant_violations(report), IsEmpty()) << name;
    const std::string text = report_text(report);
    EXPECT_THAT(schema_violations(nlohmann::json::parse(text)), IsEmpty()) << name;
    EXPECT_EQ(report_text(parse_report(text, "r.json")), text) << name;
  }
}

TEST(ReportJson, ignores_unknown_fields_unless_strict) {
  auto json = to_json(sample_report(1));
  json["cells"][0]["color"] = "red";
  json["cells"][0]["x_color"] = "red";
  json["environment"]["x_room"] = json["run"]["x_who"] = "me";
  json["cells"][0]["axes"]["ranks"] = 2;
  EXPECT_NO_THROW(read(json));
  std::vector<std::string> violations;
  report_from(json, "r.json", true, violations);
  EXPECT_THAT(violations, ElementsAre("cells/0/axes/ranks: unknown field", "cells/0/color: unknown field"));
}

TEST(ReportJson, DerivesAnewWhatOlderRulesMade) {
  Report before = sample_report(3);
  before.cells[0].forks[1].flags = {"preempted"};
  before.cells[0].flags = {"preempted"};
  before.cells[0].metrics["step_time"].value = 7;
  auto json = to_json(before);
  json["rules"] = 1;
  const Report report = read(json);
  EXPECT_EQ(report.rules, derivation_rules);
  EXPECT_THAT(report.cells[0].flags, IsEmpty());
  EXPECT_THAT(report.cells[0].forks[1].flags, IsEmpty());
  EXPECT_THAT(report.cells[0].forks[1].warnings, testing::Contains(HasSubstr("preempted")));
  EXPECT_LT(*report.cells[0].metrics.at("step_time").value, 1);
  EXPECT_THAT(invariant_violations(report), IsEmpty());
  json["rules"] = derivation_rules;
  EXPECT_EQ(*read(json).cells[0].metrics.at("step_time").value, 7) << "what these rules made is kept";
}

TEST(ReportJson, FindsFalseNumbersOfEarlierRulesBeforeItDerivesThem) {
  const auto found = [](const std::function<void(Report&)>& spoil) {
    Report report = sample_report(6);
    report.cells[0].metrics = metrics_of(report.cells[0]);
    spoil(report);
    auto json = to_json(report);
    json["rules"] = 3;
    std::vector<std::string> violations;
    report_from(json, "r.json", false, violations);
    return violations;
  };
  EXPECT_THAT(found([](Report&) {}), IsEmpty());
  EXPECT_THAT(found([](Report& r) { r.cells[0].metrics["step_time"].value = 0.00204; }),
              ElementsAre(HasSubstr("metric step_time: value is 0.00204")));
  EXPECT_THAT(found([](Report& r) { r.cells[0].metrics["step_time"].unit = "ms"; }),
              ElementsAre(HasSubstr("the unit is ms")));
  EXPECT_THAT(found([](Report& r) { r.cells[0].metrics["step_time"].upper = 0.00206; }),
              ElementsAre(HasSubstr("metric step_time: upper is 0.00206")));
  EXPECT_THAT(found([](Report& r) { r.cells[0].metrics["step_time"].n = 7; }),
              ElementsAre(HasSubstr("metric step_time: n is 7")));
  EXPECT_THAT(found([](Report& r) { r.cells[0].flags = {"disturbed"}; }),
              ElementsAre(HasSubstr("its flags are [disturbed], but its forks give []")));
  EXPECT_THAT(found([](Report& r) { r.cells[0].forks[2].flags = {"disturbed", "disturbed_round"}; }),
              testing::Contains(HasSubstr("metric step_time: n is 6, but 5 forks count")));
}

TEST(ReportJson, says_that_other_rules_made_its_metrics) {
  auto json = to_json(sample_report(1));
  EXPECT_THAT(other_rules(read(json)), IsEmpty());
  json["rules"] = derivation_rules + 1;
  EXPECT_THAT(other_rules(read(json)), HasSubstr(std::to_string(derivation_rules + 1)));
}

// A report with any bytes is read or refused, and validated; no other exception escapes.
TEST(ReportJson, survives_hostile_reports) {
  std::mt19937 random(20260102);
  const std::string good = report_text(sample_report(2));
  const std::vector<std::string> pieces{"null",
                                        "-1",
                                        "1e308",
                                        "{}",
                                        "[]",
                                        "\"\"",
                                        "[[[[",
                                        "\"status\":",
                                        "18446744073709551615",
                                        "-9223372036854775808",
                                        "true",
                                        ",",
                                        "\\u0000",
                                        "\xff",
                                        "{\"a\":1}",
                                        "0.5"};
  int accepted = 0;
  for (int round = 0; round < 400; ++round) {
    std::string text = good;
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < edits; ++i) {
      const std::size_t at = random() % text.size();
      const std::string& piece = pieces[random() % pieces.size()];
      if (random() % 2 == 0) {  // a whole value, so that the text often stays JSON
        const std::size_t colon = text.find(": ", at);
        const std::size_t end = text.find_first_of(",}]", colon == text.npos ? at : colon);
        if (colon != text.npos && end != text.npos) text.replace(colon + 2, end - colon - 2, piece);
      } else {
        text.replace(at, random() % 20, piece);
      }
    }
    try {
      const nlohmann::json document = parse_strict_json(text, "r.json");
      std::vector<std::string> violations;
      invariant_violations(report_from(document, "r.json", false, violations));
      EXPECT_LE(violations.size(), 20U);
      invariant_violations(report_from(document, "r.json"));
      ++accepted;
    } catch (const JsonError&) {
    }
  }
  EXPECT_GT(accepted, 5);  // or the mutations test only the tokenizer
}

}  // namespace
}  // namespace assay
