#include "tests/simulation/noise.hpp"

#include <cmath>

#include "harness/core/statistics.hpp"
#include "harness/report/json_reader.hpp"

namespace assay::simulation {

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
  const StrictDocument document = read_strict_document(file);
  const JsonReader in(document);
  std::vector<Series> all;
  in.field("series").each([&](const JsonReader& item) {
    Series series;
    item.read("name", series.name);
    item.read("kind", series.kind);
    item.field("forks").each([&](const JsonReader& fork) {
      std::vector<double> blocks;
      fork.each([&](const JsonReader& block) { blocks.push_back(block.number()); });
      if (blocks.empty()) fork.fail("has no block");
      series.values.push_back(median(blocks));
      series.forks.push_back(std::move(blocks));
    });
    all.push_back(std::move(series));
  });
  return all;
}

}  // namespace assay::simulation
