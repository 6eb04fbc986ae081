#include "harness/core/text.hpp"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(DurationText, reads_well_at_every_size) {
  EXPECT_EQ(duration_text(2.13e-3), "2.13 ms");
  EXPECT_EQ(duration_text(5e-5), "50 us");
  EXPECT_EQ(duration_text(0.9996e-3), "1 ms");
  EXPECT_EQ(duration_text(0.9996), "1 s");
  EXPECT_EQ(duration_text(41), "41 s");
  EXPECT_EQ(duration_text(200), "3 min 20 s");
  EXPECT_EQ(duration_text(7260), "2 h 1 min");
}

TEST(Plural, HasAnSExceptForOne) {
  EXPECT_EQ(plural(0, "round"), "0 rounds");
  EXPECT_EQ(plural(1, "shared seed"), "1 shared seed");
  EXPECT_EQ(plural(std::size_t{12}, "cell"), "12 cells");
}

TEST(OneLine, has_no_control_characters_of_either_set) {
  EXPECT_EQ(one_line("a\x1b[31mb\nc\td\x7f"), "a [31mb c d");
  EXPECT_EQ(one_line("a\xC2\x9B"
                     "31mb"),
            "a 31mb")
      << "U+009B is what ESC [ is";
  EXPECT_EQ(one_line("\xC2\xB5s \xC3\xA4"), "\xC2\xB5s \xC3\xA4") << "µ and ä stay";
}

TEST(OneLine, is_not_a_command_of_a_ci_server) {
  EXPECT_EQ(one_line("::error file=a::b"), ": :error file=a::b");
  EXPECT_EQ(one_line("\n ::error::b"), ": :error::b");
  EXPECT_EQ(one_line("see ##[error]x"), "see ## [error]x");
}

TEST(Wrapped, BreaksLinesBetweenWords) {
  EXPECT_EQ(wrapped("ab cd ef", 5), "ab cd\nef");
  EXPECT_EQ(wrapped("abcdefg hi", 5), "abcdefg\nhi");
  EXPECT_EQ(wrapped("abc - de", 4), "abc -\nde") << "a minus would begin a list";
  EXPECT_EQ(wrapped("", 5), "");
}

TEST(OneLine, ends_at_its_limit_and_cuts_no_character) {
  EXPECT_EQ(one_line("abcdef", 3), "abc...");
  EXPECT_EQ(one_line("ab\xC3\xA4"
                     "cd",
                     3),
            "ab\xC3\xA4...");
}

TEST(ShellWord, quotes_special_characters) {
  EXPECT_EQ(shell_word("onednn"), "onednn");
  EXPECT_EQ(shell_word("step:1x0.9"), "step:1x0.9");
  EXPECT_EQ(shell_word("a;touch${IFS}b"), "'a;touch${IFS}b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(Utf8, FollowsRfc3629) {
  EXPECT_EQ(find_bad_utf8("plain \xc3\xaf \xe2\x82\xac \xf0\x9f\x8e\xac"), std::string_view::npos);
  for (const char* bad : {"ab\x85", "ab\xc0\xaf", "ab\xe0\x80\x80", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80",
                          "ab\xff", "ab\xe2\x82", "ab\xf5\x80\x80\x80", "ab\xf0\x80\x80\x80"})
    EXPECT_EQ(find_bad_utf8(bad), 2u) << bad;
}

}  // namespace
}  // namespace assay
