// epochs/NNNN.plan.npy of a cell folder: the samples of an epoch, in order. The normative text is
// docs/reference/protocol.md, "The data set"; this is its summary.
//
// int32 (n, 4), one row for each sample: its index in the split "train"; the crop's offset (dx, dy) to the
// right and down, in pixels; and whether it is then mirrored left to right (0 or 1):
//   out[c][y][x] = in[c][y + dy][(flip ? W - 1 - x : x) + dx]
// A pixel outside of the image is raw zero before normalisation. n may differ from the split's size. A fork
// that counts steps reads the existing plans 0001, 0002, … in order and then begins again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "harness/core/io/npy.hpp"

namespace assay {

struct PlanRow {
  std::int32_t sample = 0;
  std::int32_t dx = 0;
  std::int32_t dy = 0;
  std::int32_t flip = 0;
  bool as_is() const { return dx == 0 && dy == 0 && flip == 0; }
  bool operator==(const PlanRow&) const = default;
};

// "<cell>/epochs/0001.plan.npy"; epochs count from 1.
std::filesystem::path plan_path(const std::filesystem::path& cell_folder, int epoch);
// Creates the folder. Throws IoError.
void write_plan(const std::filesystem::path& cell_folder, int epoch, std::span<const PlanRow> rows);

// A plan as the batch library reads it.
class MappedPlan {
 public:
  // Checks type and shape. Throws IoError.
  explicit MappedPlan(const std::filesystem::path& path);

  std::span<const PlanRow> rows() const;
  // Throws IoError for a sample outside of [0, samples), for a crop outside of the image, and for crops or
  // mirroring of samples that are not (C, H, W). Reads every row.
  void require_valid(std::int64_t samples, const Shape& sample_shape) const;

 private:
  MappedNpy array_;
  std::filesystem::path path_;
};

}  // namespace assay
