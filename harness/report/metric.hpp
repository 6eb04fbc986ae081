// A metric is data: printers use hints and do not know metrics. metric_table.hpp lists the metrics.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "harness/core/words.hpp"

namespace assay {

// The best way to show a value.
enum class Hint { duration, rate, ratio, percentage, bytes, count, energy, power, number };

template <>
inline constexpr auto words<Hint> = std::array{
    Word{Hint::duration, "duration"},     Word{Hint::rate, "rate"},   Word{Hint::ratio, "ratio"},
    Word{Hint::percentage, "percentage"}, Word{Hint::bytes, "bytes"}, Word{Hint::count, "count"},
    Word{Hint::energy, "energy"},         Word{Hint::power, "power"}, Word{Hint::number, "number"}};

// One estimate with its interval over the forks. Serialised under its name, e.g. "samples_per_second".
struct Metric {
  std::optional<double> value{};  // median over forks; absent: null in JSON, with `reason`
  std::string unit{};             // "s", "1/s", "FLOP/s", "B/s", "B", "1", "W", "J"
  std::optional<double>
      lower{};  // exact, distribution-free bounds of the median over forks; absent below six forks
  std::optional<double> upper{};
  std::optional<double> confidence{};  // confidence of the bounds, e.g. 0.96875
  int n = 0;                           // number of forks of the value
  Hint hint = Hint::number;
  std::string reason{};  // why the value is absent: "no GPU on this machine"
  bool operator==(const Metric&) const = default;
};

// Whether the metric belongs to the memory plan: it is computed before anything runs, so it has a value
// without a fork (and n is 1).
inline bool is_planned(std::string_view name) { return name.starts_with("plan_"); }

// Ordered by name; the name is the field's term: "epoch_time", "latency_p99".
using Metrics = std::map<std::string, Metric, std::less<>>;

}  // namespace assay
