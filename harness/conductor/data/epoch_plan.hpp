// The order of the samples of an epoch, made once for all backends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "harness/batch/plan_file.hpp"
#include "harness/conductor/data/augmentation.hpp"

namespace assay {

// A permutation of [0, samples) by Philox(seed, "epoch/<n>"), whatever the augmentation is. Crops and
// mirroring by Philox(seed, "epoch/<n>/augmentation"): for each row in turn dx, then dy from [-crop, crop]
// where there are crops, then the flip where there is mirroring. Epochs count from 1.
std::vector<PlanRow> epoch_plan(std::int64_t samples, int epoch, std::uint64_t seed,
                                const Augmentation& augmentation = {});
// Writes epochs/0001.plan.npy … of a cell folder.
void write_epoch_plans(const std::filesystem::path& cell_folder, std::int64_t samples, int epochs,
                       std::uint64_t seed, const Augmentation& augmentation = {});

}  // namespace assay
