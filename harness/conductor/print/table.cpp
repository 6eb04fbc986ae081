#include "harness/conductor/print/table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace assay {
namespace {

struct Scale {
  double least;
  double factor;
  const char* unit;
};

template <std::size_t N>
std::string scaled(double value, const std::array<Scale, N>& scales) {
  const double size = std::abs(value);
  for (const Scale& scale : scales)
    if (size >= scale.least) return format_significant(value / scale.factor) + " " + scale.unit;
  return format_significant(value / scales.back().factor) + " " + scales.back().unit;
}

constexpr double rounding = 0.9995;  // 999.6 us is 1.00 ms
constexpr std::array<Scale, 6> durations{{{2 * 3600, 3600, "h"},
                                          {10 * 60, 60, "min"},
                                          {rounding, 1, "s"},
                                          {rounding * 1e-3, 1e-3, "ms"},
                                          {rounding * 1e-6, 1e-6, "µs"},
                                          {0, 1e-9, "ns"}}};
constexpr std::array<Scale, 5> sizes{{{0x1p40, 0x1p40, "TiB"},
                                      {0x1p30, 0x1p30, "GiB"},
                                      {0x1p20, 0x1p20, "MiB"},
                                      {0x1p10, 0x1p10, "KiB"},
                                      {0, 1, "B"}}};
constexpr std::array<Scale, 5> decimals{{{rounding * 1e12, 1e12, "T"},
                                         {rounding * 1e9, 1e9, "G"},
                                         {rounding * 1e6, 1e6, "M"},
                                         {rounding * 1e4, 1e3, "k"},
                                         {0, 1, ""}}};

std::string with_prefix(double value, std::string_view unit) {
  std::string text = scaled(value, decimals);
  if (unit == "1") unit = "";
  if (unit.starts_with("1/")) unit.remove_prefix(1);
  text += unit;
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace

std::string format_significant(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  if (value == 0) return "0";
  const int leading = static_cast<int>(std::floor(std::log10(std::abs(value))));
  const int places = std::clamp(digits - 1 - leading, 0, 12);
  std::string text = fmt::format("{:.{}f}", value, places);
  // Rounding may have added a digit: 9.999 -> "10.00".
  if (places > 0 && std::abs(std::stod(text)) >= std::pow(10.0, leading + 1))
    text = fmt::format("{:.{}f}", value, places - 1);
  return text;
}

std::string format_value(double value, Hint hint, std::string_view unit) {
  if (!std::isfinite(value)) return "-";
  switch (hint) {
    case Hint::duration:
      return scaled(value, durations);
    case Hint::bytes:
      return scaled(value, sizes);
    case Hint::percentage:
      return fmt::format("{:.1f} %", 100 * value);
    case Hint::ratio:
      return format_significant(value) + "x";
    case Hint::count:
      return std::abs(value) < 1e6 ? fmt::format("{:.0f}", value) : with_prefix(value, unit);
    case Hint::rate:
    case Hint::energy:
    case Hint::power:
      return with_prefix(value, unit);
    case Hint::number:
      break;
  }
  return unit.empty() || unit == "1" ? format_significant(value)
                                     : format_significant(value) + " " + std::string(unit);
}

std::string format_metric(const Metric& metric) {
  if (!metric.value) return "-";
  const auto shown = [&](double value) { return format_value(value, metric.hint, metric.unit); };
  std::string text = shown(*metric.value);
  if (!metric.lower || !metric.upper) return text;
  std::string lower = shown(*metric.lower), upper = shown(*metric.upper);
  // Prints a unit that all three share only once: "2.05 ms [2.00, 2.10]".
  const std::string unit = text.substr(text.find_first_not_of("-0123456789.") == text.npos
                                           ? text.size()
                                           : text.find_first_not_of("-0123456789."));
  if (!unit.empty() && lower.ends_with(unit) && upper.ends_with(unit)) {
    const auto digits = [&](const std::string& bound) { return bound.substr(0, bound.size() - unit.size()); };
    const auto plain = [](const std::string& bound) {
      return bound.find_first_not_of("-0123456789.") == bound.npos;
    };
    if (plain(digits(lower)) && plain(digits(upper))) {
      lower = digits(lower);
      upper = digits(upper);
    }
  }
  return text + fmt::format(" [{}, {}]", lower, upper);
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

Table without_empty_columns(Table table) {
  std::vector<bool> kept(table.columns.size());
  for (std::size_t i = 0; i < kept.size(); ++i)
    kept[i] = std::any_of(table.rows.begin(), table.rows.end(),
                          [i](const auto& row) { return !row[i].text.empty() && row[i].text != "-"; });
  const auto keep = [&](auto& items) {
    std::size_t to = 0;
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (kept[i]) {
        if (to != i) items[to] = std::move(items[i]);
        ++to;
      }
    items.resize(to);
  };
  keep(table.columns);
  for (auto& row : table.rows) keep(row);
  return table;
}

}  // namespace assay
