// The order and the random views of the samples of an epoch, the same for all backends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harness/batch/plan_file.hpp"

namespace assay {

// The variation of the training images of an epoch: random crops and mirroring, drawn into the epoch's plan.

// He et al. 2015, section 4.2: "4 pixels are padded on each side, and a 32x32 crop is randomly sampled from
// the padded image or its horizontal flip".
struct Augmentation {
  int crop = 0;       // padding on each side: the crop's offset is drawn from [-crop, crop], each way
  bool flip = false;  // mirrored left to right, half of the time

  bool none() const { return crop == 0 && !flip; }
  // "none", "crop:4", "flip", "crop:4+flip".
  std::string text() const;
  // Parses a result of text(), with crop and flip in either order. Throws DataError with the valid forms.
  static Augmentation parse(std::string_view text);
  bool operator==(const Augmentation&) const = default;
};

// A permutation of [0, samples) by Philox(seed, "epoch/<n>"), independent of the augmentation. Crops and
// mirroring by Philox(seed, "epoch/<n>/augmentation"): for each row in order dx, then dy from [-crop, crop]
// if there are crops, then the flip if there is mirroring. Epochs count from 1.
std::vector<PlanRow> epoch_plan(std::int64_t samples, int epoch, std::uint64_t seed,
                                const Augmentation& augmentation = {});

// Which rows of a plan are those of one of several ranks.
struct PlanShare {
  std::int64_t batch = 1;  // of all ranks together
  int rank = 0, world = 1;
};
// Of each whole batch, the rows r B/N to (r + 1) B/N - 1 of rank r of N. All rows if there is one rank.
std::vector<PlanRow> rows_of_rank(std::vector<PlanRow> plan, const PlanShare& share);

// Writes epochs/0001.plan.npy … of a cell folder.
void write_epoch_plans(const std::filesystem::path& cell_folder, std::int64_t samples, int epochs,
                       std::uint64_t seed, const Augmentation& augmentation = {},
                       const PlanShare& share = {});

}  // namespace assay
