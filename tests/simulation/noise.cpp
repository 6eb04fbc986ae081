#include "tests/simulation/noise.hpp"

#include <cmath>

#include "harness/core/json/decode.hpp"
#include "harness/core/statistics.hpp"

namespace assay::simulation {
namespace {

struct RecordedSeries {
  std::string name{}, kind{};
  std::vector<std::vector<double>> forks{};  // seconds of blocks
};
constexpr auto describe(Of<RecordedSeries>) {
  return fields("series", "Times of one cell.", field("name", &RecordedSeries::name, "Its name."),
                field("kind", &RecordedSeries::kind, "quiet, tails, ..."),
                field("forks", &RecordedSeries::forks, "Seconds of the blocks of each fork."));
}
struct Recording {
  std::vector<RecordedSeries> series{};
};
constexpr auto describe(Of<Recording>) {
  return fields("recording", "Recorded times.", field("series", &Recording::series, "Each of one cell."));
}

}  // namespace

double Series::spread() const {
  double sum = 0, squares = 0;
  for (const double value : values) sum += std::log(value);
  const auto n = static_cast<double>(values.size());
  for (const double value : values) squares += std::pow(std::log(value) - sum / n, 2);
  return std::sqrt(squares / (n - 1));
}

Series scaled(const Series& series, double spread) {
  const double factor = spread / series.spread(), middle = std::log(median(series.values));
  const auto moved = [&](double value) { return std::exp(middle + factor * (std::log(value) - middle)); };
  Series made;
  made.kind = series.kind;
  made.name = series.name;
  for (const auto& fork : series.forks) {
    std::vector<double> blocks;
    for (const double block : fork) blocks.push_back(moved(block));
    made.values.push_back(median(blocks));
    made.forks.push_back(std::move(blocks));
  }
  return made;
}

std::vector<Series> read_noise(const std::filesystem::path& file) {
  std::vector<Series> all;
  for (RecordedSeries& recorded : decoded<Recording>(read_strict_json(file), file.string()).series) {
    Series& series = all.emplace_back();
    series.name = std::move(recorded.name);
    series.kind = std::move(recorded.kind);
    for (std::vector<double>& blocks : recorded.forks) {
      if (blocks.empty()) throw JsonError(file.string() + ": " + series.name + ": a fork has no block");
      series.values.push_back(median(blocks));
      series.forks.push_back(std::move(blocks));
    }
  }
  return all;
}

}  // namespace assay::simulation
