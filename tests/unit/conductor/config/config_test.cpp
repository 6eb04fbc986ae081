#include "harness/conductor/config/config.hpp"

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/conductor/config/matrix.hpp"
#include "harness/conductor/config/worker_variables.hpp"
#include "harness/core/text.hpp"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RunConfig config(const char* text) { return config_from_json(nlohmann::json::parse(text), "test.json"); }

std::string error_of(const char* text) {
  try {
    config(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Config, a_row_has_its_own_values_over_those_of_the_run) {
  const RunConfig read = config(R"({"forks": 6, "batch": 200, "workload": "lenet5",
                                    "cells": [{"mode": ["eager", "graph"]}, {"batch": [16, 32]}]})");
  ASSERT_EQ(read.rows.size(), 2U);
  EXPECT_EQ(integer_of(read.values, "forks"), 6);
  EXPECT_THAT(list_of(row_values(read, read.rows[0]), "mode"), ElementsAre("eager", "graph"));
  EXPECT_THAT(list_of(row_values(read, read.rows[0]), "batch"), ElementsAre("200"));
  EXPECT_THAT(list_of(row_values(read, read.rows[1]), "batch"), ElementsAre("16", "32"));
}

TEST(Config, refuses_a_misspelt_key_with_place_and_suggestion) {
  EXPECT_THAT(error_of(R"({"cells": [{"workload": "mlp"}, {"bacth": 3}]})"),
              AllOf(HasSubstr("test.json"), HasSubstr("cells[1]"), HasSubstr("bacth"), HasSubstr("batch")));
  EXPECT_THAT(error_of(R"({"fork": 3})"), HasSubstr("forks"));
  EXPECT_THAT(error_of(R"({"cells": [{"published": [{"metric": "x", "vlaue": 1, "source": "s"}]}]})"),
              AllOf(HasSubstr("cells[0].published[0]"), HasSubstr("value")));
}

TEST(WorkerVariables, AreNamesWithValues) {
  EXPECT_EQ(
      parse_environment({"OMP_SCHEDULE=static", "XLA_FLAGS=--a=b --c", "OMP_SCHEDULE=dynamic", "EMPTY="}),
      (std::map<std::string, std::string>{
          {"OMP_SCHEDULE", "dynamic"}, {"XLA_FLAGS", "--a=b --c"}, {"EMPTY", ""}}));
  const auto error_of = [](const char* item) -> std::string {
    try {
      parse_environment({item});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "none";
  };
  for (const char* item : {"OMP_SCHEDULE", "=static", "1A=b", "A B=c"})
    EXPECT_THAT(error_of(item), HasSubstr("must be NAME=VALUE")) << item;
  EXPECT_THAT(error_of("OMP_NUM_THREADS=4"), HasSubstr("use --threads"));
  EXPECT_THAT(error_of("TMPDIR=/tmp"), HasSubstr("set it for Assay itself"));
  EXPECT_THAT(error_of("ASSAY_CACHE=/tmp"), HasSubstr("set it for Assay itself"));
  EXPECT_THAT(error_of("WANDB_API_KEY=abc"), AllOf(HasSubstr("may hold a secret"), Not(HasSubstr("abc"))));
  EXPECT_THAT(error_of("A=b\nc"), HasSubstr("control characters"));
  EXPECT_THAT(error_of("A=\xff"), HasSubstr("is not UTF-8"));
}

TEST(WorkerVariables, ThatLoadFilesAreNotForAConfig) {
  for (const char* name : {"OMP_WAIT_POLICY", "KMP_BLOCKTIME", "MALLOC_ARENA_MAX"})
    EXPECT_TRUE(may_be_in_config(name)) << name;
  for (const char* name : {"LD_PRELOAD", "PYTHONPATH", "PATH", "OMP_TOOL_LIBRARIES", "XLA_FLAGS", "CXX"})
    EXPECT_FALSE(may_be_in_config(name)) << name;
}

TEST(Config, refuses_options_of_the_run_in_a_cell) {
  EXPECT_THAT(error_of(R"({"cells": [{"forks": 3}]})"), HasSubstr("whole run"));
}

TEST(Config, bad_values_are_refused_with_their_place) {
  EXPECT_THAT(error_of(R"({"batch": 0})"), AllOf(HasSubstr("$.batch"), HasSubstr("got 0")));
  EXPECT_THAT(error_of(R"({"batch": 1.5})"), HasSubstr("not a whole number"));
  EXPECT_THAT(error_of(R"({"batch": []})"), HasSubstr("empty"));
  EXPECT_THAT(error_of(R"({"batch": {"a": 1}})"), HasSubstr("$.batch"));
  EXPECT_THAT(error_of(R"({"task": "sleep"})"), HasSubstr("train, infer"));
  EXPECT_THAT(error_of(R"({"forks": [1, 2]})"), HasSubstr("one value"));
  EXPECT_THAT(error_of(R"({"epochs": 2, "steps": 3})"), HasSubstr("both epochs and steps"));
  EXPECT_THAT(error_of(R"({"cells": []})"), HasSubstr("$.cells"));
  EXPECT_THAT(error_of(R"([])"), HasSubstr("object"));
  EXPECT_THAT(error_of(R"({"cells": [{"published": [{"metric": "step_time", "value": 1}]}]})"),
              HasSubstr("source"));
}

TEST(Config, the_command_line_wins_over_every_row) {
  RunConfig read = config(R"({"epochs": 15, "cells": [{"batch": 200}, {"batch": 32, "epochs": 3}]})");
  OptionValues given;
  set_option(given, require_option("batch", ""), "8,16", "--batch");
  set_option(given, require_option("steps", ""), "40", "--steps");
  read.override_with(given);
  for (const ConfigRow& row : read.rows) {
    const OptionValues values = row_values(read, row);
    EXPECT_THAT(list_of(values, "batch"), ElementsAre("8", "16"));
    EXPECT_EQ(integer_of(values, "steps"), 40);
    EXPECT_FALSE(values.contains("epochs"));
  }
}

TEST(Config, is_read_back_unchanged) {
  const RunConfig read =
      config(R"({"name": "n", "title": "t", "source": "s", "forks": 6, "deterministic": true,
      "data": ["/a", "/b"], "block-seconds": 0.25, "awaits": {"far": ["eager"]}, "when-quick": {"batch": 4},
      "cells": [{"mode": ["eager", "graph"], "backend": "far", "published": [
          {"metric": "step_time", "value": 2.5, "source": "x", "to": {"backend": "near", "batch": 3}}]}]})");
  const RunConfig again = config_from_json(to_json(read), "again");
  EXPECT_EQ(to_json(again), to_json(read));
  EXPECT_EQ(again.values, read.values);
  EXPECT_EQ(again.rows[0].values, read.rows[0].values);
  EXPECT_EQ(again.rows[0].published.at(0).to, read.rows[0].published.at(0).to);
  EXPECT_EQ(again.awaits, read.awaits);
  EXPECT_EQ(again.when_quick, read.when_quick);
}

TEST(Config, WritesNumbersThatAreNotWrittenAsInJson) {
  OptionValues given;
  for (const auto& [name, text] : {std::pair{"forks", "010"}, {"block-seconds", ".5"}, {"time-limit", "60."}})
    set_option(given, require_option(name, ""), text, "command line");
  const nlohmann::json json = to_json(config_of(given));
  EXPECT_EQ(json["forks"], 10);
  EXPECT_EQ(json["block-seconds"], 0.5);
  EXPECT_EQ(json["time-limit"].dump(), "60");
  EXPECT_EQ(to_json(config_from_json(json, "again.json")), json);
}

TEST(Config, a_published_entry_inherits_the_source_of_the_config) {
  const RunConfig read = config(R"({"source": "S", "cells": [{"published": [
      {"metric": "step_time", "value": 1}, {"metric": "step_time", "value": 2, "source": "T"}]}]})");
  EXPECT_EQ(read.rows[0].published[0].published.source, "S");
  EXPECT_EQ(read.rows[0].published[1].published.source, "T");
}

TEST(Config, refuses_an_awaited_backend_that_is_not_used) {
  EXPECT_THAT(error_of(R"({"awaits": {"tensorflw": ["graph"]}, "cells": [{"backend": "tensorflow"}]})"),
              AllOf(HasSubstr("$.awaits"), HasSubstr("no cell uses the backend 'tensorflw'")));
  EXPECT_THAT(error_of(R"({"awaits": {"x": []}, "backend": "x"})"), HasSubstr("at least one"));
  EXPECT_THAT(error_of(R"({"awaits": ["x"], "backend": "x"})"), HasSubstr("object"));
}

TEST(Config, another_cell_differs_only_in_axes) {
  const auto published = [](const char* to) {
    return error_of((R"({"source": "s", "cells": [{"published": [{"metric": "x", "value": 1, "to": )" +
                     std::string(to) + "}]}]}")
                        .c_str());
  };
  EXPECT_EQ(published(R"({"backend": "a", "epochs": 3})"), "");
  EXPECT_THAT(published(R"({"bakend": "a"})"), HasSubstr("backend"));
  EXPECT_THAT(published(R"({"blocks": 3})"), HasSubstr("is not an axis"));
  EXPECT_THAT(published(R"({"batch": [1, 2]})"), HasSubstr("one value"));
  EXPECT_THAT(published("{}"), HasSubstr("name the axes"));
  EXPECT_THAT(published(R"("an/id")"), HasSubstr("object"));
}

TEST(Config, records_changes_of_the_protocol_by_the_command_line) {
  RunConfig read =
      config(R"({"epochs": 15, "awaits": {"far": ["eager"]}, "when-quick": {"epochs": 2, "batch": 4},
                              "cells": [{"batch": 200, "backend": "far"}]})");
  OptionValues given;
  set_option(given, require_option("epochs", ""), "3", "");
  set_option(given, require_option("backend", ""), "fast", "");
  set_option(given, require_option("threads", ""), "1", "");
  set_option(given, require_option("forks", ""), "1", "");
  read.override_with(given);
  EXPECT_THAT(read.overridden, ElementsAre("epochs"));
  EXPECT_TRUE(read.awaits.empty()) << "no cell has it any more";
  EXPECT_FALSE(read.when_quick.contains("epochs"));
  EXPECT_EQ(to_json(config_from_json(to_json(read), "again")), to_json(read));
}

TEST(Config, its_quick_values_apply_only_to_quick_runs) {
  RunConfig read = config(R"({"epochs": 15, "batch": 200, "when-quick": {"steps": 5, "batch": 4},
                              "cells": [{"batch": 100}]})");
  EXPECT_EQ(integer_of(row_values(read, read.rows[0]), "batch"), 100);
  read.values["quick"] = {"true"};
  const OptionValues values = row_values(read, read.rows[0]);
  EXPECT_EQ(integer_of(values, "batch"), 4);
  EXPECT_EQ(integer_of(values, "steps"), 5);
  EXPECT_FALSE(values.contains("epochs"));
}

// A row that names no backend is for each that has its device.
bool is_meant(const RunConfig& config, const Cell& cell) {
  return row_values(config, config.rows[cell.row]).contains("backend") ||
         contains(cell.backend->devices, cell.axes.device);
}

TEST(Config, the_shipped_ones_are_good) {
  const std::filesystem::path source(ASSAY_SOURCE_DIR);
  BackendRegistry here = find_backends_in({source / "backends"}, {});
  // As if each were set up: which of them are is this machine's affair.
  for (BackendDescription& backend : here.backends) {
    backend.unavailable.clear();
    backend.unavailable_on.clear();
    backend.unavailable_in_ranks.clear();
  }
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source / "configs")) {
    SCOPED_TRACE(entry.path().filename());
    RunConfig read = read_config(entry.path());
    EXPECT_EQ(read.name, entry.path().stem());
    EXPECT_FALSE(read.title.empty());
    const Registries registries = [&] {
      Registries all{.backends = here};
      for (const auto& [name, modes] : read.awaits) add_awaited_backend(all.backends, name, modes);
      return all;
    }();
    const std::vector<Cell> cells = expand(read, registries).cells;
    std::set<std::string> ids;
    for (const Cell& cell : cells) ids.insert(cell.id);
    for (const Cell& cell : cells) {
      if (is_meant(read, cell)) {
        EXPECT_NE(cell.status, Status::unsupported) << cell.id << ": " << cell.reason;
      }
      EXPECT_TRUE(cell.published.empty() || !read.source.empty());
      for (const Published& published : cell.published) {
        if (published.to) {
          EXPECT_TRUE(ids.contains(*published.to)) << cell.id << " next to " << *published.to;
        }
      }
    }
    read.values["quick"] = {"true"};
    const std::vector<Cell> quick = expand(read, registries).cells;
    EXPECT_FALSE(quick.empty());
    EXPECT_LE(quick.size(), cells.size());
    ++seen;
  }
  EXPECT_GT(seen, 2);
}

TEST(Config, ShippedCellsNeedNoMoreThanADeviceAndALauncher) {
  const std::filesystem::path source(ASSAY_SOURCE_DIR);
  Registries here{.backends = find_backends_in({source / "backends"}, {})};
  for (BackendDescription& backend : here.backends.backends) {
    backend.unavailable.clear();
    backend.unavailable_on.clear();
    backend.unavailable_in_ranks.clear();
    if (contains(backend.devices, DeviceKind::cuda)) backend.unavailable_on[DeviceKind::cuda] = "no GPU";
  }
  int without_gpu = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source / "configs")) {
    const RunConfig read = read_config(entry.path());
    for (const Cell& cell : expand(read, here).cells) {
      if (!is_meant(read, cell) || cell.reason_code == ReasonCode::launcher_missing) continue;
      const bool on_gpu = cell.axes.device == DeviceKind::cuda;
      EXPECT_EQ(cell.status, on_gpu ? Status::unavailable : Status::ok) << cell.id << ": " << cell.reason;
      without_gpu += on_gpu;
    }
  }
  EXPECT_GT(without_gpu, 100);
}

TEST(Options, every_row_has_help_and_a_default_that_passes_its_own_check) {
  for (const Option& option : options()) {
    EXPECT_GT(option.help.size(), 10U) << option.name;
    if (!option.default_value.empty()) {
      EXPECT_NO_THROW(check_value(option, option.default_value, "")) << option.name;
    }
  }
}

TEST(Options, TakesATimeWithOrWithoutAUnit) {
  const Option& limit = require_option("time-limit", "");
  const auto seconds = [&](const char* text) {
    OptionValues values;
    set_option(values, limit, text, "");
    return number_of(values, "time-limit");
  };
  EXPECT_EQ(seconds("5"), 5);
  EXPECT_EQ(seconds("0.5s"), 0.5);
  EXPECT_EQ(seconds("5m"), 300);
  EXPECT_EQ(seconds("2h"), 7200);
  EXPECT_EQ(duration_of({{"max-time", {"1.5m"}}}, "max-time"), 90);
  for (const char* wrong : {"", "m", "5d", "5ms", "5 m", "m5", "nan", "infs"})
    EXPECT_THROW(check_value(limit, wrong, ""), ConfigError) << wrong;
  for (const char* wrong : {"0", "-1m", "nan", "5x"})
    EXPECT_THROW(duration_of({{"max-time", {wrong}}}, "max-time"), ConfigError) << wrong;
  EXPECT_THROW(check_value(limit, "9999h", ""), ConfigError) << "above the maximum of its row";
  EXPECT_THROW(check_value(require_option("forks", ""), "5m", ""), ConfigError);
}

TEST(Options, a_repeatable_option_adds_and_keeps_commas) {
  OptionValues values;
  set_option(values, require_option("data", ""), "/a,b", "");
  set_option(values, require_option("data", ""), "/c", "");
  EXPECT_THAT(list_of(values, "data"), ElementsAre("/a,b", "/c"));
}

}  // namespace
}  // namespace assay
