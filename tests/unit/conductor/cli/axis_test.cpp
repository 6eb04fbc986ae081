// One row added to the table of axes is found everywhere that an axis has to be.
#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "harness/conductor/cli/table_options.hpp"
#include "harness/conductor/compare/ab_sides.hpp"
#include "harness/conductor/config/matrix.hpp"
#include "harness/conductor/fork/cell_folder.hpp"
#include "harness/conductor/print/printers.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/protocol/request.hpp"
#include "harness/report/axes_json.hpp"
#include "harness/report/report_json.hpp"

namespace assay {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class OneRow : public ::testing::Test {
 protected:
  OneRow() {
    BackendDescription backend;
    backend.name = "fast";
    backend.kind = BackendKind::bare;
    backend.command = {"/bin/true"};
    backend.devices = {DeviceKind::cpu};
    backend.modes = {"graph"};
    backend.tasks = {Task::train, Task::infer};
    backend.precisions = {PrecisionKind::fp32};
    backend.layouts = {"native"};
    backend.loaders = {LoaderKind::resident, LoaderKind::harness};
    registry_.backends = {backend};
  }
  std::vector<Cell> cells(nlohmann::json config) {
    config["backend"] = "fast";
    config["threads"] = 1;
    return expand(config_from_json(config, "test.json"), registries_).cells;
  }
  Cell warped() { return cells({{"workload", "mlp"}, {"warp-factor", 7}}).at(0); }
  std::string error_of(const nlohmann::json& config) {
    try {
      cells(config);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }

  AddedAxis added_{{.option = {"warp-factor", OptionScope::axis, OptionType::integer, "N,...", "1",
                               "How much faster than light", 1, 9},
                    .request = true}};
  Registries registries_;
  BackendRegistry& registry_ = registries_.backends;
};

TEST(AddedAxis, LastsAsLongAsItsScope) {
  const std::size_t rows = axis_table().size();
  {
    const AddedAxis added({.option = {.name = "warp-factor", .scope = OptionScope::axis}});
    EXPECT_NE(find_axis("warp-factor"), nullptr);
  }
  EXPECT_EQ(find_axis("warp-factor"), nullptr);
  EXPECT_EQ(axis_table().size(), rows);
  EXPECT_EQ(axes_in_order().size(), rows);
}

TEST_F(OneRow, IsOfARequestThatWorkersTakeAtAllLimits) {
  for (const Option& option : options()) {
    const bool counts = option.type == OptionType::integer;
    if (option.scope != OptionScope::cell || (!counts && option.type != OptionType::number)) continue;
    for (const double limit : {option.min, option.max}) {
      const nlohmann::json value = counts ? nlohmann::json(std::llround(limit)) : nlohmann::json(limit);
      const Cell cell = cells({{"workload", "mlp"}, {std::string(option.name), value}}).at(0);
      EXPECT_NO_THROW(decoded<CellRequest>(request_json(cell, 1), "request.json"))
          << option.name << ' ' << limit;
    }
  }
}

TEST_F(OneRow, IsAnOptionWithItsHelp) {
  CLI::App app{"test"};
  cli::TableOptions table;
  table.add_all(app);
  EXPECT_THAT(app.help(),
              AllOf(HasSubstr("--warp-factor N,..."), HasSubstr("How much faster than light [1]")));
  app.parse(std::vector<std::string>{"2,3", "--warp-factor"});  // last word first
  EXPECT_THAT(table.values().at("warp-factor"), SizeIs(2));
}

TEST_F(OneRow, IsAConfigKeyThatIsChecked) {
  EXPECT_EQ(error_of({{"workload", "mlp"}, {"warp-factor", {1, 9}}}), "accepted");
  EXPECT_THAT(error_of({{"workload", "mlp"}, {"warp-factor", 10}}),
              HasSubstr("[warp-factor] got 10: must be from 1 to 9"));
  EXPECT_THAT(error_of({{"workload", "mlp"}, {"warp-factor", "fast"}}), HasSubstr("not a whole number"));
  EXPECT_THAT(error_of({{"workload", "mlp"}, {"wrap-factor", 2}}), HasSubstr("did you mean 'warp-factor'?"));
}

TEST_F(OneRow, MakesCellsOfNetworksAndOfOps) {
  const auto networks = cells({{"workload", "mlp"}, {"warp-factor", {1, 2, 3}}});
  ASSERT_THAT(networks, SizeIs(3));
  EXPECT_EQ(networks[0].axes.integer("warp-factor"), 1);
  EXPECT_EQ(networks[2].axes.integer("warp-factor"), 3);
  const auto ops =
      cells({{"workload", "op/relu"}, {"task", "infer"}, {"size", "16"}, {"warp-factor", {2, 3}}});
  ASSERT_THAT(ops, SizeIs(2));
  EXPECT_THAT(ops[0].id, HasSubstr("/warp-factor=2/"));
}

TEST_F(OneRow, IsInTheIdAndTheTitleWhereItIsSet) {
  EXPECT_THAT(warped().id, HasSubstr("/t1/warp-factor=7/steps"));
  EXPECT_THAT(group_title(warped().axes), HasSubstr(", warp-factor 7, steps"));
  EXPECT_THAT(family_title(warped().axes), HasSubstr(", warp-factor 7, steps"));
  const Cell plain = cells({{"workload", "mlp"}, {"warp-factor", 1}}).at(0);
  EXPECT_THAT(plain.id, Not(HasSubstr("warp")));
  EXPECT_THAT(group_title(plain.axes), Not(HasSubstr("warp")));
  EXPECT_THAT(title_words(warped().axes), Contains("warp-factor 7"));
  EXPECT_THAT(title_words(warped().axes), SizeIs(title_words(plain.axes).size()));
}

TEST_F(OneRow, IsInTheRequestOfEveryCell) {
  EXPECT_EQ(request_json(warped(), 1).at("warp_factor"), 7);
  EXPECT_EQ(request_json(cells({{"workload", "mlp"}}).at(0), 1).at("warp_factor"), 1);
}

TEST_F(OneRow, IsInTheReportAndTheCsv) {
  Report report;
  CellReport cell;
  cell.id = warped().id;
  cell.axes = warped().axes;
  cell.kind = BackendKind::bare;
  report.cells.push_back(cell);
  const CellReport again = parse_report(report_text(report), "test").cells.at(0);
  EXPECT_EQ(again.axes.integer("warp-factor"), 7);
  EXPECT_EQ(cell_id(again.axes), cell.id);
  EXPECT_THAT(csv({report}), HasSubstr(",warp-factor=7,"));
  EXPECT_THAT(schema_of(Of<Axes>{}).dump(), HasSubstr("`warp-factor`"));
}

TEST_F(OneRow, IsInTheReproduceLine) {
  EXPECT_THAT(warped().reproduce({}, 1), HasSubstr(" --warp-factor 7 "));
  EXPECT_THAT(cells({{"workload", "mlp"}}).at(0).reproduce({}, 1), Not(HasSubstr("warp")));
}

TEST_F(OneRow, IsSomethingThatTheSidesOfAbMayDifferIn) {
  EXPECT_EQ(parse_side("warp-factor=7", "--a").values.at("warp-factor").at(0), "7");
  const std::vector<Cell> plain = cells({{"workload", "mlp"}});
  EXPECT_THAT(pair_cells({warped()}, plain, {"warp-factor"}), SizeIs(1));
  EXPECT_THROW(pair_cells({warped()}, plain, {}), ConfigError);
}

TEST_F(OneRow, IsInTheDocumentation) {
  EXPECT_THAT(axis_reference(),
              HasSubstr("| `warp-factor` | 1 to 9 | `1` | every cell | `/warp-factor=X` if set | "
                        "`variant.warp-factor` | How much faster than light |"));
}

TEST(AxisOfOps, IsRefusedForNetworks) {
  const AddedAxis added({.option = {.name = "tilt", .scope = OptionScope::axis}, .applies = AppliesTo::op});
  Registries registries;
  BackendDescription backend;
  backend.name = "fast";
  backend.modes = {"graph"};
  registries.backends.backends = {backend};
  const auto config =
      config_from_json({{"workload", "mlp"}, {"backend", "fast"}, {"tilt", "x"}}, "test.json");
  EXPECT_THROW(expand(config, registries), ConfigError);
}

TEST(UnknownAxis, OfAnotherVersionsReportStaysInTheId) {
  Axes axes;
  axes.workload = "mlp";
  axes.measure = "steps";
  axes.variant = {{"warp-factor", "7"}};
  EXPECT_THAT(cell_id(axes), HasSubstr("/warp-factor=7/steps"));
  EXPECT_THAT(group_title(axes), HasSubstr(", warp-factor 7, steps"));
}

}  // namespace
}  // namespace assay
