// The real set, where the system has it.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "harness/conductor/data/preparation.hpp"
#include "harness/core/io/npy.hpp"
#include "tests/temporary_folder.hpp"

namespace assay {
namespace {

TEST(FashionMnist, is_prepared_from_the_systems_files) {
  const TemporaryFolder folder;
  PrepareOptions options;
  options.cache = folder.path();
  PreparedDataset prepared;
  try {
    prepared = prepare_dataset("fashion-mnist", options);
  } catch (const DatasetMissing& missing) {
    GTEST_SKIP() << missing.what();
  }
  const auto& splits = prepared.manifest.splits;
  EXPECT_EQ(splits.at("train").count, 48'000);
  EXPECT_EQ(splits.at("validation").count, 12'000);
  EXPECT_EQ(splits.at("test").count, 10'000);
  const MappedNpy labels(splits.at("train").labels);
  // The publisher's first training images: ankle boot, T-shirt, T-shirt, dress.
  EXPECT_TRUE(std::equal(labels.as<std::int32_t>().begin(), labels.as<std::int32_t>().begin() + 4,
                         std::vector<std::int32_t>{9, 0, 0, 3}.begin()));
  for (int c = 0; c < 10; ++c)
    EXPECT_EQ(std::count(labels.as<std::int32_t>().begin(), labels.as<std::int32_t>().end(), c), 6000);
  const MappedNpy inputs(splits.at("train").inputs);
  const std::span<const std::uint8_t> pixels = inputs.as<std::uint8_t>();
  const double mean =
      std::accumulate(pixels.begin(), pixels.end(), 0.0) / static_cast<double>(pixels.size()) / 255;
  EXPECT_NEAR(mean, 0.2860, 1e-4);  // as published for the training images
}

}  // namespace
}  // namespace assay
