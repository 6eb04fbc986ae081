#include "harness/conductor/data/epoch_plan.hpp"

#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "harness/core/io/philox.hpp"

namespace assay {

std::vector<PlanRow> epoch_plan(std::int64_t samples, int epoch, std::uint64_t seed,
                                const Augmentation& augmentation) {
  if (samples < 1 || samples > std::numeric_limits<std::int32_t>::max())
    throw std::invalid_argument(fmt::format("[epoch_plan] got {} samples", samples));
  std::vector<PlanRow> rows(static_cast<std::size_t>(samples));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].sample = static_cast<std::int32_t>(i);
  Philox(seed, fmt::format("epoch/{}", epoch)).shuffle(std::span(rows));
  if (augmentation.none()) return rows;
  Philox random(seed, fmt::format("epoch/{}/augmentation", epoch));
  const auto offset = [&] {
    return static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(2 * augmentation.crop + 1))) -
           augmentation.crop;
  };
  for (PlanRow& row : rows) {
    if (augmentation.crop > 0) {
      row.dx = offset();
      row.dy = offset();
    }
    if (augmentation.flip) row.flip = static_cast<std::int32_t>(random.below(2));
  }
  return rows;
}

std::vector<PlanRow> rows_of_rank(std::vector<PlanRow> plan, const PlanShare& share) {
  if (share.world == 1) return plan;
  const auto batch = static_cast<std::size_t>(share.batch),
             own = batch / static_cast<std::size_t>(share.world);
  std::vector<PlanRow> rows;
  for (std::size_t first = 0; first + batch <= plan.size(); first += batch) {
    const auto part = std::span(plan).subspan(first + static_cast<std::size_t>(share.rank) * own, own);
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

void write_epoch_plans(const std::filesystem::path& cell_folder, std::int64_t samples, int epochs,
                       std::uint64_t seed, const Augmentation& augmentation, const PlanShare& share) {
  for (int epoch = 1; epoch <= epochs; ++epoch)
    write_plan(cell_folder, epoch, rows_of_rank(epoch_plan(samples, epoch, seed, augmentation), share));
}

}  // namespace assay
