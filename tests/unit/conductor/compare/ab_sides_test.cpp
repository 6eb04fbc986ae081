#include "harness/conductor/compare/ab_sides.hpp"

#include <filesystem>

#include <gmock/gmock.h>

#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

Cell cell(const std::string& backend, const std::string& mode, std::int64_t batch = 32) {
  Cell made;
  made.axes.workload = "mlp";
  made.axes.backend = backend;
  made.axes.mode = mode;
  made.axes.batch = batch;
  made.axes.measure = "steps";
  made.id = cell_id(made.axes);
  return made;
}

std::string refusal(const std::string& text) {
  try {
    parse_side(text, "--a");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(AbSides, a_side_sets_axes_settings_and_the_build) {
  const AbSide side = parse_side("backend=onednn,block-seconds=0.2,build=/somewhere", "--a");
  EXPECT_EQ(side.values.at("backend"), std::vector<std::string>{"onednn"});
  EXPECT_EQ(side.values.at("block-seconds"), std::vector<std::string>{"0.2"});
  EXPECT_EQ(side.build, "/somewhere");
  const AbSide version =
      parse_side("interpreter=torch=/opt/torch/bin/python,interpreter=jax=/opt/jax/bin/python", "--a");
  EXPECT_EQ(version.values.at("interpreter"),
            (std::vector<std::string>{"torch=/opt/torch/bin/python", "jax=/opt/jax/bin/python"}));
  EXPECT_TRUE(parse_side("", "--a").values.empty());
}

TEST(AbSides, refuses_options_that_must_be_equal) {
  EXPECT_THAT(refusal("backnd=onednn"), HasSubstr("--a: the sides must not differ in 'backnd'"));
  EXPECT_THAT(refusal("backnd=onednn"), HasSubstr("backend"));
  EXPECT_THAT(refusal("forks=3"), HasSubstr("applies to the whole run"));
  EXPECT_THAT(refusal("onednn"), HasSubstr("must be NAME=VALUE"));
  EXPECT_THAT(refusal("threads=many"), HasSubstr("threads"));
}

TEST(AbSides, pairs_cells_that_differ_in_nothing_else) {
  const std::vector<Cell> a{cell("onednn", "graph"), cell("onednn", "graph", 64)};
  const std::vector<Cell> b{cell("torch", "compile", 64), cell("torch", "compile")};
  const auto pairs = pair_cells(a, b, {"backend", "mode"});
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].b, 1U);
  EXPECT_THAT(pairs[0].id, HasSubstr("mlp/{onednn|torch}/cpu/{graph|compile}/"));
  EXPECT_EQ(pair_cells(a, a, {})[0].id, a[0].id);
}

TEST(AbSides, refuses_cells_without_a_partner_or_with_two) {
  EXPECT_THROW(pair_cells({cell("onednn", "graph")}, {cell("torch", "graph", 64)}, {"backend"}), ConfigError);
  EXPECT_THROW(pair_cells({cell("onednn", "graph"), cell("onednn", "eager")}, {cell("torch", "graph")},
                          {"backend", "mode"}),
               ConfigError);
  EXPECT_THROW(
      pair_cells({cell("onednn", "graph")}, {cell("onednn", "graph"), cell("onednn", "graph", 64)}, {}),
      ConfigError);
}

TEST(AbSides, finds_the_backends_of_a_build_or_an_installation) {
  const TemporaryFolder folder;
  EXPECT_THROW(backends_of_build(folder.path()), ConfigError);
  std::filesystem::create_directories(folder.path() / "libexec/assay/backends");
  EXPECT_THAT(backends_of_build(folder.path()),
              UnorderedElementsAre(folder.path() / "libexec/assay/backends"));
}

}  // namespace
}  // namespace assay
