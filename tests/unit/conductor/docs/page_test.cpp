#include "harness/conductor/docs/page.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/docs/pages.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

Page two_blocks() {
  return {"fruit", "Fruit", {{"apples", [] { return "red\n"; }}, {"pears", [] { return "green\n"; }}}};
}

std::string block(const std::string& name, const std::string& text) {
  return "<!-- assay docs: " + name + " -->\n\n" + text + "\n<!-- /assay docs -->\n";
}

TEST(Page, NewTextHasTheTitleAndEachBlock) {
  EXPECT_EQ(new_text(two_blocks()),
            "# Fruit\n\n" + block("apples", "red\n") + "\n" + block("pears", "green\n"));
}

TEST(Page, UpdateWritesBlocksAndKeepsProse) {
  const std::string before = "# My fruit\n\nProse.\n\n" + block("pears", "old\nlines\n") + "\nMore.\n" +
                             block("apples", "") + "The end.\n";
  EXPECT_EQ(updated_text(two_blocks(), before, "fruit.md"), "# My fruit\n\nProse.\n\n" +
                                                                block("pears", "green\n") + "\nMore.\n" +
                                                                block("apples", "red\n") + "The end.\n");
}

TEST(Page, UpdateOfAnUpdatedTextChangesNothing) {
  const std::string once = updated_text(two_blocks(), new_text(two_blocks()), "fruit.md");
  EXPECT_EQ(once, new_text(two_blocks()));
}

TEST(Page, RefusesAFileWithOtherBlocks) {
  const Page page = two_blocks();
  const auto update = [&](const std::string& text) {
    return [&page, text] { updated_text(page, text, "fruit.md"); };
  };
  const std::string apples = block("apples", "x\n"), pears = block("pears", "x\n");
  EXPECT_THAT(update("# Fruit\n" + apples), ThrowsMessage<PageError>(HasSubstr("'pears' is missing")));
  EXPECT_THAT(update(apples + pears + apples),
              ThrowsMessage<PageError>(HasSubstr("'apples' is there twice")));
  EXPECT_THAT(update(apples + block("paers", "x\n")), ThrowsMessage<PageError>(HasSubstr("mean 'pears'")));
  EXPECT_THAT(update("<!-- assay docs: apples -->\n" + pears), ThrowsMessage<PageError>(HasSubstr("no end")));
  EXPECT_THAT(update(pears + "<!-- assay docs: apples -->\n"), ThrowsMessage<PageError>(HasSubstr("no end")));
  EXPECT_THAT(update(""), ThrowsMessage<PageError>(StartsWith("fruit.md: ")));
}

TEST(ReferencePages, HaveNamesOfTheirOwnAndBlocks) {
  std::set<std::string> names;
  for (const Page& page : reference_pages()) {
    EXPECT_TRUE(names.insert(page.name).second) << page.name;
    EXPECT_FALSE(page.title.empty()) << page.name;
    EXPECT_FALSE(page.blocks.empty()) << page.name;
  }
  EXPECT_GE(names.size(), 9u);
}

}  // namespace
}  // namespace assay
