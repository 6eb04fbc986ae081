#include "harness/conductor/cli/table_options.hpp"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <CLI/CLI.hpp>

namespace assay::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Command {
  CLI::App app{"test"};
  std::string config;
  TableOptions table;

  Command() {
    app.add_option("CONFIG", config);
    table.add_all(app);
  }
  OptionValues parse(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());  // as the parser wants them
    app.parse(words);
    return table.values();
  }
};

TEST(TableOptions, are_the_whole_table_and_nothing_else) {
  Command command;
  for (const Option& row : options())
    EXPECT_NE(command.app.get_option_no_throw("--" + std::string(row.name)), nullptr) << row.name;
  EXPECT_EQ(command.app.get_options().size(), options().size() + 2) << "and CONFIG and --help";
}

TEST(TableOptions, split_lists_at_commas_only_for_axes) {
  const OptionValues values = Command().parse({"--batch", "1,32", "--workload=mlp,cnn", "--data", "/a,b"});
  EXPECT_THAT(values.at("batch"), ElementsAre("1", "32"));
  EXPECT_THAT(values.at("workload"), ElementsAre("mlp", "cnn"));
  EXPECT_THAT(values.at("data"), ElementsAre("/a,b"));
}

TEST(TableOptions, RepeatableOptionsAddUp) {
  EXPECT_THAT(Command().parse({"--data", "/a", "--data", "/b"}).at("data"), ElementsAre("/a", "/b"));
}

TEST(TableOptions, given_twice_are_refused_where_one_value_is_meant) {
  EXPECT_THROW(Command().parse({"--forks", "3", "--forks", "6"}), CLI::ParseError);
}

TEST(TableOptions, never_let_a_flag_swallow_the_config_after_it) {
  Command command;
  const OptionValues values = command.parse({"--quick", "quickstart"});
  EXPECT_EQ(command.config, "quickstart");
  EXPECT_TRUE(flag_of(values, "quick"));
  EXPECT_FALSE(flag_of(Command().parse({"--check=false"}), "check"));
}

TEST(TableOptions, that_were_not_given_are_absent) { EXPECT_TRUE(Command().parse({}).empty()); }

TEST(TableOptions, are_checked_by_the_table) {
  EXPECT_THROW(Command().parse({"--batch", "0"}), ConfigError);
  EXPECT_THROW(Command().parse({"--task", "dream"}), ConfigError);
  EXPECT_THROW(Command().parse({"--quick=perhaps"}), ConfigError);
}

TEST(TableOptions, say_their_defaults_in_the_help) {
  const std::string help = Command().app.help();
  EXPECT_THAT(help, HasSubstr("[fp32]"));
  EXPECT_THAT(help, HasSubstr("[yes; --check=false: no]"));
  EXPECT_THAT(help, HasSubstr("Axes (lists with commas"));
}

TEST(HelpLines, BreakBetweenWordsAndKeepAll) {
  const std::string text =
      "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
      "seventeen";
  std::string joined = help_lines(text);
  std::istringstream lines(joined);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 72u);
  std::replace(joined.begin(), joined.end(), '\n', ' ');
  EXPECT_EQ(joined, text);
}

}  // namespace
}  // namespace assay::cli
