#include "harness/report/run_record.hpp"

#include "harness/core/json/encode.hpp"

namespace assay {

std::vector<ContentDifference> content_differences(const DatasetRecord& earlier, const DatasetRecord& now) {
  const bool same_shape = earlier.sample_shape == now.sample_shape;
  std::vector<ContentDifference> found;
  const auto add = [&](std::string_view what, const auto& was, const auto& is) {
    if (was != is) found.push_back({what, encode(was), encode(is)});
  };
  if (same_shape || now.checksum_of == "contents") {
    add("checksum", earlier.checksum, now.checksum);
    add("checksum_of", earlier.checksum_of, now.checksum_of);
  }
  if (same_shape) add("splits", earlier.splits, now.splits);
  return found;
}

}  // namespace assay
