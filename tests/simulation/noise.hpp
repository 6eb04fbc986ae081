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

  // Standard deviation of ln(value): what `assay calibrate` calls the scatter of forks.
  double spread() const;
};

// The same shape, order and disturbances, with every deviation of ln(value) from its median made smaller or
// larger so that the spread becomes that: the noise of a calmer machine of this kind.
Series scaled(const Series& series, double spread);

// Of tests/noise/forks.json. Throws JsonError.
std::vector<Series> read_noise(const std::filesystem::path& file);

}  // namespace assay::simulation
