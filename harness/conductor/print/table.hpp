// A table as data; printers.hpp prints it. Printers know hints, but no metrics.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/text.hpp"
#include "harness/report/metric.hpp"

namespace assay {

enum class Align { left, right };
// The meaning of the entry; a color on a terminal, not shown elsewhere.
enum class Tone { plain, good, bad, doubtful, quiet };

struct Column {
  std::string title;
  Align align = Align::left;
};

// UTF-8. Printers remove control characters, so that a worker's text never reaches the terminal unfiltered.
struct Entry {
  std::string text;
  Tone tone = Tone::plain;
};

struct Table {
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<Entry>> rows;  // each as long as `columns`
  std::vector<std::string> notes;        // sentences under the table
};

// Removes the columns in which every row is empty.
Table without_empty_columns(Table table);

// Three significant digits with a unit that fits: "2.41 ms", "83.1 k/s", "87.4 %", "4.00 MiB", "3.12x".
std::string format_value(double value, Hint hint, std::string_view unit);
// The value, with " [lower, upper]" if it has an interval; "-" if it is null.
std::string format_metric(const Metric& metric);
// Without an exponent: 0.00123, 1.23, 123, 123456.
std::string format_significant(double value, int digits = 3);
// The number of characters (code points), not of bytes.
std::size_t display_width(std::string_view text);

}  // namespace assay
