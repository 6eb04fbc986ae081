#include "harness/batch/plan_file.hpp"

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/npy.hpp"

namespace assay {

static_assert(sizeof(PlanRow) == 16 && alignof(PlanRow) == 4, "rows are read in place");

std::filesystem::path plan_path(const std::filesystem::path& cell_folder, int epoch) {
  return cell_folder / "epochs" / fmt::format("{:04}.plan.npy", epoch);
}

void write_plan(const std::filesystem::path& cell_folder, int epoch, std::span<const PlanRow> rows) {
  const std::filesystem::path path = plan_path(cell_folder, epoch);
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) throw IoError("plan", path.parent_path(), "cannot be created", error.value());
  write_npy(path, {DType::i32, {static_cast<std::int64_t>(rows.size()), 4}}, std::as_bytes(rows));
}

MappedPlan::MappedPlan(const std::filesystem::path& path) : array_(path), path_(path) {
  const TensorType& type = array_.type();
  if (type.dtype != DType::i32 || type.shape.size() != 2 || type.shape[1] != 4)
    throw IoError("plan", path, fmt::format("is {}, wanted i32 (n, 4)", to_string(type)));
}

std::span<const PlanRow> MappedPlan::rows() const {
  return {reinterpret_cast<const PlanRow*>(array_.bytes().data()), array_.bytes().size() / sizeof(PlanRow)};
}

void MappedPlan::require_valid(std::int64_t samples, const Shape& sample_shape) const {
  const bool image = sample_shape.size() == 3;
  const std::int64_t height = image ? sample_shape[1] : 1, width = image ? sample_shape[2] : 1;
  for (const PlanRow& row : rows()) {
    const auto fail = [&](std::string_view what) {
      return IoError("plan", path_, fmt::format("row {} {}", &row - rows().data(), what));
    };
    if (row.sample < 0 || row.sample >= samples)
      throw fail(fmt::format("names sample {}, but the split has {}", row.sample, samples));
    if (row.as_is()) continue;
    if (!image)
      throw fail(fmt::format("has a crop or a mirroring, but samples {} are not images (C, H, W)",
                             to_string(sample_shape)));
    if (row.dx <= -width || row.dx >= width || row.dy <= -height || row.dy >= height)
      throw fail(fmt::format("has a crop at ({}, {}), which is outside of the image of {} by {}", row.dx,
                             row.dy, width, height));
    if (row.flip != 0 && row.flip != 1)
      throw fail(fmt::format("has a flip of {}; it must be 0 or 1", row.flip));
  }
}

}  // namespace assay
