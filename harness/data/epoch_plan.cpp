#include "harness/data/epoch_plan.hpp"

#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/io/philox.hpp"

namespace assay {

std::vector<PlanRow> epoch_plan(std::int64_t samples, int epoch, std::uint64_t seed) {
  if (samples < 1 || samples > std::numeric_limits<std::int32_t>::max())
    throw std::invalid_argument(fmt::format("[epoch_plan] got {} samples", samples));
  std::vector<PlanRow> rows(static_cast<std::size_t>(samples));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].sample = static_cast<std::int32_t>(i);
  Philox(seed, fmt::format("epoch/{}", epoch)).shuffle(std::span(rows));
  return rows;
}

void write_epoch_plans(const std::filesystem::path& cell_folder, std::int64_t samples, int epochs,
                       std::uint64_t seed) {
  for (int epoch = 1; epoch <= epochs; ++epoch)
    write_plan(cell_folder, epoch, epoch_plan(samples, epoch, seed));
}

}  // namespace assay
