// Forks that were recorded on a machine, to be replayed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace assay::simulation {

struct Series {
  std::string name, kind;
  std::vector<std::vector<double>> forks;  // in the order of time; of each the time a step of its blocks
  std::vector<double> values;              // the medians of the forks: what the program compares

  // 1.4826 times the median distance of ln(value) from its median.
  double spread() const;
};

// Of tests/noise/forks.json. Throws JsonError.
std::vector<Series> read_noise(const std::filesystem::path& file);

}  // namespace assay::simulation
