#include "harness/batch/manifest.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/core/error.hpp"
#include "harness/core/io/atomic_file.hpp"
#include "harness/core/json/decode.hpp"
#include "harness/core/json/encode.hpp"

namespace assay {
namespace {

std::filesystem::path manifest_path(const std::filesystem::path& cell_folder) {
  return cell_folder / "data" / "manifest.json";
}

// Checks rules over several fields.
void check(const Manifest& manifest, const std::filesystem::path& path) {
  const auto reject = [&](std::string_view field, std::string_view reason) {
    throw JsonError(fmt::format("{}/{}: {}", path.string(), field, reason));
  };
  const Shape& sample = manifest.sample_shape;
  if (sample.size() > 8)
    reject("sample_shape", fmt::format("has {} sizes, at most 8 are read", sample.size()));
  std::int64_t elements = 1;
  for (const std::int64_t extent : sample)
    if ((elements *= extent) > Manifest::max_elements)
      reject("sample_shape", fmt::format("has more than {} elements", Manifest::max_elements));
  if (manifest.kind == StorageKind::encoded) {
    if (manifest.positions > 0) reject("positions", "an image of the kind encoded has one label");
    if (manifest.resize == 0) reject("resize", "is missing: the kind encoded needs it");
    if (sample.size() != 3 || sample[0] != 3 || std::max(sample[1], sample[2]) > Manifest::max_side)
      reject("sample_shape",
             fmt::format("should be (3, H, W) of up to {} pixels a side", Manifest::max_side));
  }
  const auto channels = static_cast<std::size_t>(sample.front());
  const auto check_length = [&](std::string_view field, const std::vector<float>& list) {
    if (list.size() != 1 && list.size() != channels)
      reject(field, fmt::format("has {} numbers, should have 1 or {}", list.size(), channels));
  };
  check_length("normalisation/scale", manifest.normalisation.scale);
  check_length("normalisation/shift", manifest.normalisation.shift);
  constexpr float largest_byte = 255;
  for (const float scale : manifest.normalisation.scale)
    if (!std::isfinite(scale * largest_byte))
      reject("normalisation/scale", fmt::format("{:g} makes pixels infinite", scale));
}

}  // namespace

Manifest read_manifest(const std::filesystem::path& cell_folder) {
  const std::filesystem::path path = manifest_path(cell_folder);
  const nlohmann::json json = read_strict_json(path, {.bytes = 1 << 20});
  auto manifest = decoded<Manifest>(json, path.string(), {.not_finite = false});
  check(manifest, path);
  for (auto& [name, split] : manifest.splits) {
    split.inputs = std::filesystem::absolute(cell_folder / split.inputs);
    split.labels = std::filesystem::absolute(cell_folder / split.labels);
  }
  return manifest;
}

void write_manifest(const std::filesystem::path& cell_folder, const Manifest& manifest) {
  const std::filesystem::path path = manifest_path(cell_folder);
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) throw IoError("manifest", path.parent_path(), "cannot be created", error.value());
  write_atomically(path, encode(manifest).dump(2) + "\n", false);
}

}  // namespace assay
