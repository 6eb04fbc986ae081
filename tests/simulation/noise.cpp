#include "tests/simulation/noise.hpp"

#include <cmath>

#include "harness/measure/statistics.hpp"
#include "harness/report/json_reader.hpp"

namespace assay::simulation {

double Series::spread() const {
  std::vector<double> logs, distances;
  for (const double value : values) logs.push_back(std::log(value));
  const double middle = median(logs);
  for (const double log : logs) distances.push_back(std::abs(log - middle));
  return 1.4826 * median(distances);
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
