// One split of a data set, sample by sample, as input of the network.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "harness/batch/manifest.hpp"
#include "harness/batch/plan_file.hpp"
#include "harness/core/io/npy.hpp"

namespace assay {

// Reading is const and may be done by several threads at once.
class Source {
 public:
  virtual ~Source() = default;

  virtual std::int64_t samples() const = 0;
  // Its only label. Not allowed if the manifest has positions.
  virtual std::int32_t label(std::int64_t sample) const = 0;
  // Writes all labels of the sample: one, or one for each position.
  virtual void labels(std::int64_t sample, std::int32_t* out) const { *out = label(sample); }
  // Writes the elements of the row's sample: f32, normalised, cropped and mirrored as the row says
  // (plan_file.hpp), or i32 tokens, as the manifest says. The row must pass MappedPlan::require_valid.
  virtual void read(const PlanRow& row, void* inputs) const = 0;
};

// Opens splits and maps each array once, even if several splits use it.
class SourceOpener {
 public:
  explicit SourceOpener(Manifest manifest) : manifest_(std::move(manifest)) {}

  const Manifest& manifest() const { return manifest_; }
  // Checks shapes, bounds, every label and every token. Throws IoError, also if the manifest has no such
  // split.
  std::unique_ptr<Source> open(const std::string& split);

 private:
  std::unique_ptr<Source> open_array(const std::string& name, const Split& split,
                                     std::shared_ptr<const MappedNpy> labels);
  std::shared_ptr<const MappedNpy> map(const std::filesystem::path& path);

  Manifest manifest_;
  std::map<std::filesystem::path, std::shared_ptr<const MappedNpy>> arrays_;
};

}  // namespace assay
