#include "harness/conductor/print/table.hpp"

#include <cmath>

#include <gmock/gmock.h>

#include "harness/conductor/print/printers.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Table small() {
  return {.title = "times",
          .columns = {{"name"}, {"time", Align::right}},
          .rows = {{{"a"}, {"1.50 µs", Tone::good}}, {{"long name"}, {"12 s"}}},
          .notes = {"a note"}};
}

TEST(Format, gives_three_significant_digits_without_an_exponent) {
  EXPECT_EQ(format_significant(0.00123456), "0.00123");
  EXPECT_EQ(format_significant(1.005), "1.00");
  EXPECT_EQ(format_significant(9.999), "10.0");
  EXPECT_EQ(format_significant(99.96), "100");
  EXPECT_EQ(format_significant(123456), "123456");
  EXPECT_EQ(format_significant(-0.5), "-0.500");
  EXPECT_EQ(format_significant(0), "0");
  EXPECT_EQ(format_significant(std::nan("")), "-");
}

TEST(Format, chooses_a_unit_that_fits_by_the_hint) {
  EXPECT_EQ(format_value(0.00241, Hint::duration, "s"), "2.41 ms");
  EXPECT_EQ(format_value(0.00099999, Hint::duration, "s"), "1.00 ms");
  EXPECT_EQ(format_value(3e-8, Hint::duration, "s"), "30.0 ns");
  EXPECT_EQ(format_value(59.5, Hint::duration, "s"), "59.5 s");
  EXPECT_EQ(format_value(1800, Hint::duration, "s"), "30.0 min");
  EXPECT_EQ(format_value(83100, Hint::rate, "1/s"), "83.1 k/s");
  EXPECT_EQ(format_value(950, Hint::rate, "1/s"), "950 /s");
  EXPECT_EQ(format_value(0.874, Hint::percentage, "1"), "87.4 %");
  EXPECT_EQ(format_value(4 << 20, Hint::bytes, "B"), "4.00 MiB");
  EXPECT_EQ(format_value(3.1234, Hint::ratio, "1"), "3.12x");
  EXPECT_EQ(format_value(12.4, Hint::count, "1"), "12");
  EXPECT_EQ(format_value(250000, Hint::energy, "J"), "250 kJ");
  EXPECT_EQ(format_value(1.5, Hint::number, "1"), "1.50");
  EXPECT_EQ(format_value(HUGE_VAL, Hint::duration, "s"), "-");
}

TEST(Format, shows_an_interval_where_there_is_one_and_a_dash_for_null) {
  Metric metric{.value = 0.002,
                .unit = "s",
                .lower = 0.0019,
                .upper = 0.0021,
                .confidence = 0.97,
                .n = 6,
                .hint = Hint::duration};
  EXPECT_EQ(format_metric(metric), "2.00 ms [1.90, 2.10]");
  metric.lower = 0.0009;
  EXPECT_EQ(format_metric(metric), "2.00 ms [900 µs, 2.10 ms]");
  metric.lower.reset();
  metric.upper.reset();
  EXPECT_EQ(format_metric(metric), "2.00 ms");
  metric.value.reset();
  EXPECT_EQ(format_metric(metric), "-");
}

TEST(Console, aligns_columns_by_characters_and_not_by_bytes) {
  EXPECT_EQ(console(small(), {}),
            "times\n"
            "name          time\n"
            "a          1.50 µs\n"
            "long name     12 s\n"
            "a note\n");
}

TEST(Console, writes_colours_only_when_asked) {
  EXPECT_THAT(console(small(), {}), Not(HasSubstr("\x1b[")));
  EXPECT_THAT(console(small(), {.colour = true}), HasSubstr("\x1b[32m1.50 µs\x1b[0m"));
}

TEST(Console, stays_in_ascii_where_the_terminal_is_not_utf8) {
  const std::string text = console(small(), {.utf8 = false});
  EXPECT_THAT(text, HasSubstr("1.50 us"));
  for (const char c : text) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
}

TEST(Console, never_passes_control_characters_of_a_worker_to_the_terminal) {
  Table table = small();
  table.rows[0][0].text = "evil\x1b[2J\a\nname";
  table.notes = {"log: \x1b]0;title\x07 end"};
  for (const char c : console(table, {})) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ');
}

TEST(Console, wraps_notes_to_the_width_and_keeps_every_word) {
  const std::string text = console_note(
      "torch compile: unavailable: PyTorch is not set up on this machine; scripts/setup --framework torch",
      {.width = 50});
  EXPECT_THAT(text, HasSubstr("scripts/setup"));
  std::size_t start = 0;
  for (std::size_t end = text.find('\n'); end != text.npos; start = end + 1, end = text.find('\n', start))
    EXPECT_LE(end - start, 50u);
}

TEST(Console, shows_no_colours_if_the_output_is_not_a_terminal) { EXPECT_FALSE(console_style(-1).colour); }

TEST(Markdown, is_a_github_table_with_its_markup_escaped) {
  Table table = small();
  table.rows[0][0].text = "a|b<c>";
  EXPECT_EQ(markdown(table),
            "### times\n\n"
            "| name | time |\n"
            "| --- | ---: |\n"
            "| a\\|b&lt;c&gt; | 1.50 µs |\n"
            "| long name | 12 s |\n"
            "\na note\n");
}

TEST(Table, drops_columns_in_which_every_row_is_empty) {
  Table table = small();
  table.columns.insert(table.columns.begin() + 1, Column{"tax"});
  for (auto& row : table.rows) row.insert(row.begin() + 1, Entry{"-"});
  table = without_empty_columns(table);
  EXPECT_EQ(table.columns.size(), 2u);
  EXPECT_EQ(table.rows[1][1].text, "12 s");
}

TEST(OneLine, folds_white_space_and_cuts_between_characters) {
  EXPECT_EQ(one_line("  a \n\n b\t c "), "a b c");
  EXPECT_EQ(one_line("aéééé", 4), "aéé...");
}

}  // namespace
}  // namespace assay
