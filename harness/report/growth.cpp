// Time over size.
#include <algorithm>
#include <cmath>
#include <set>

#include "harness/core/statistics.hpp"
#include "harness/report/analysis.hpp"

namespace assay {
namespace {

constexpr std::size_t min_sizes = 3;

struct Line {
  double fixed = 0, each = 0;
  double at(double size) const { return fixed + each * size; }
};

// The solution of the two normal equations for (fixed + each * size) / time = 1.
Line fit_line(const std::vector<double>& sizes, const std::vector<double>& times) {
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double u = 1 / times[i], v = sizes[i] / times[i];
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  return {(u1 * vv - v1 * uv) / determinant, (uu * v1 - uv * u1) / determinant};
}

double fit_doubling(const std::vector<double>& sizes, const std::vector<double>& times) {
  const auto n = static_cast<double>(sizes.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double log_size = std::log2(sizes[i]), log_time = std::log2(times[i]);
    x += log_size / n;
    y += log_time / n;
    xx += log_size * log_size;
    xy += log_size * log_time;
  }
  return std::exp2((xy - n * x * y) / (xx - n * x * x));
}

}  // namespace

std::optional<Growth> growth_over(std::span<const SizedCell> cells) {
  std::vector<double> sizes;
  std::vector<std::map<RoundKey, double>> times;
  for (const SizedCell& one : cells) {
    std::map<RoundKey, double> found = counted_times(*one.cell);
    if (found.empty() || one.size <= 0) continue;
    if (one.cell->environment != cells.front().cell->environment) return std::nullopt;
    sizes.push_back(one.size);
    times.push_back(std::move(found));
  }
  if (std::set<double>(sizes.begin(), sizes.end()).size() < std::max(min_sizes, sizes.size()))
    return std::nullopt;
  std::vector<double> fixed, each, doubling;
  for (const auto& [round, first] : times.front()) {
    std::vector<double> seconds;
    for (const std::map<RoundKey, double>& of_size : times)
      if (const auto found = of_size.find(round); found != of_size.end() && found->second > 0)
        seconds.push_back(found->second);
    if (seconds.size() < sizes.size()) continue;
    const Line line = fit_line(sizes, seconds);
    fixed.push_back(line.fixed);
    each.push_back(line.each);
    doubling.push_back(fit_doubling(sizes, seconds));
  }
  if (fixed.empty()) return std::nullopt;
  const auto [smallest, largest] = std::minmax_element(sizes.begin(), sizes.end());
  Growth growth{.sizes = static_cast<int>(sizes.size()), .smallest = *smallest, .largest = *largest};
  growth.fixed = over_rounds(fixed);
  growth.each = over_rounds(each);
  growth.doubling = over_rounds(doubling);
  const Line line{growth.fixed->value, growth.each->value};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::vector<double> of_size;
    for (const auto& [round, seconds] : times[i]) of_size.push_back(seconds);
    growth.misfit = std::max(growth.misfit, std::abs(line.at(sizes[i]) / median(of_size) - 1));
  }
  if (growth.misfit > max_misfit) growth.fixed = growth.each = std::nullopt;
  return growth;
}

}  // namespace assay
