// The only table of metrics: their names, units, hints, and the better direction.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "harness/report/metric.hpp"

namespace assay {

// The better direction. `neither` has none; a comparison treats its growth as a loss.
enum class Better { lower, higher, neither };
template <>
inline constexpr auto words<Better> = std::array{Word{Better::lower, "lower"}, Word{Better::higher, "higher"},
                                                 Word{Better::neither, "neither"}};

// The table for networks in which `assay show` prints a metric.
enum class Section {
  times,         // next to the rank
  others,        // below it, without intervals
  memory_plans,  // once per program
  only_ops,      // in the tables of single ops
};
template <>
inline constexpr auto words<Section> =
    std::array{Word{Section::times, "times"}, Word{Section::others, "others"},
               Word{Section::memory_plans, "memory_plans"}, Word{Section::only_ops, "only_ops"}};

struct MetricRow {
  std::string_view name;
  std::string_view unit;
  Hint hint;
  Better better;
  Section section;
  std::string_view heading;     // of its column
  std::string_view op_heading;  // of its column in the tables of single ops; empty: not shown there
  std::string_view about;       // how it is computed from the raw numbers
  bool every_fork = false;      // over all ok forks, also of rounds in which the machine was disturbed
  bool difference = false;      // of two measured times: noise can make it negative
};

// In the order of the columns. A metric is a row here and its computation in metrics.cpp.
std::span<const MetricRow> metric_table();
// Null if the table has no such metric.
const MetricRow* find_metric(std::string_view name);

// The metric without a value, but with its unit and hint. Throws std::logic_error if the table has no such
// metric.
Metric described_metric(std::string_view name);

// Whether the metric is a share of samples that were answered rightly.
inline bool is_accuracy(std::string_view name) { return name.ends_with("_accuracy"); }
// Whether the metric follows from the seed where a backend repeats its bits. Forks of one seed with one value are then one
// observation: however many there are, they show nothing of other seeds.
inline bool follows_from_seed(std::string_view name) { return is_accuracy(name) || name.ends_with("_loss"); }
// Whether a larger value is better. False for a metric that is not in the table.
bool higher_is_better(std::string_view name);

// The table as Markdown, for docs/reference/metrics.md.
std::string metric_reference();

}  // namespace assay
