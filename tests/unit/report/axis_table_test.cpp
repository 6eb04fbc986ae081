#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/report/axes.hpp"
#include "harness/report/report_json.hpp"

namespace assay {
namespace {

TEST(AxisTable, RowsAgreeWithThemselves) {
  for (const Axis& axis : axis_table()) {
    EXPECT_EQ(axis.option.scope, OptionScope::axis) << axis.name();
    EXPECT_EQ(find_axis(axis.name()), &axis) << "its name is there twice";
    EXPECT_EQ(axis.matters != nullptr, find_axis(axis.depends_on) != nullptr) << axis.name();
    // Axes that every cell has are fields, so that older readers of a report find them.
    EXPECT_TRUE(axis.has_field() || axis.identity == Identity::if_set) << axis.name();
  }
}

TEST(AxisTable, FieldsKeepTheValuesThatAreSet) {
  for (const Axis& axis : axis_table()) {
    const std::string value = !axis.option.choices.empty()           ? std::string(axis.option.choices.back())
                              : axis.option.type == OptionType::flag ? "true"
                              : axis.option.type == OptionType::integer ? "3"
                              : axis.option.type == OptionType::number  ? "0.5"
                                                                        : "some";
    Axes axes;
    set_axis(axis, axes, value);
    EXPECT_EQ(axes.text(axis.name()), value);
    EXPECT_EQ(axes.variant.contains(std::string(axis.name())), !axis.has_field()) << axis.name();
  }
  EXPECT_THROW(Axes().text("no-such-axis"), std::out_of_range);
}

TEST(AxisTable, SettingsOfAContestantAreBehindItsModeAndNotInTheTitleOfTheGroup) {
  Axes plain;
  plain.workload = "mlp";
  plain.mode = "jit";
  EXPECT_EQ(mode_words(plain), "jit");
  Axes other = plain;
  other.layout = "nhwc";
  other.compile_cache = CacheState::warm;
  other.variant["allocator"] = "keep";
  EXPECT_EQ(group_title(other), group_title(plain));
  EXPECT_EQ(title_words(other), title_words(plain));
  EXPECT_EQ(mode_words(other), "jit nhwc warm-cache allocator=keep");
}

TEST(AxisTable, SchemaOfTheReportHasItsFields) {
  const nlohmann::json cell = nlohmann::json::parse(report_schema_text()).at("definitions").at("cell");
  const std::string axes = cell.at("properties").at("axes").dump();
  for (const Axis& axis : axis_table()) {
    const auto field = ::testing::HasSubstr("\"" + axis.key() + "\":{");
    if (axis.has_field())
      EXPECT_THAT(axes, field);
    else
      EXPECT_THAT(axes, ::testing::HasSubstr("`" + std::string(axis.name()) + "`"));
  }
}

}  // namespace
}  // namespace assay
