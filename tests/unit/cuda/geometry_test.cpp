#include "backends/cuda/kernels/geometry.hpp"
#include "backends/cuda/kernels/tensor_table.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/kernels/divisor.hpp"
#include "backends/cuda/kernels/philox.hpp"
#include "backends/cuda/kernels/walk.hpp"
#include "harness/core/io/philox.hpp"

namespace assay::cuda {
namespace {

TEST(Geometry, every_element_has_a_thread_or_shares_one) {
  EXPECT_EQ(grid_of_elements(1).blocks, 1);
  EXPECT_EQ(grid_of_elements(256).blocks, 1);
  EXPECT_EQ(grid_of_elements(257).blocks, 2);
  EXPECT_EQ(grid_of_elements(std::int64_t{1} << 47).blocks, largest_grid);
}

TEST(Geometry, a_row_has_whole_warps_and_no_more_than_a_team_may_be) {
  EXPECT_EQ(grid_of_rows(8, 10).threads, 32);
  EXPECT_EQ(grid_of_rows(8, 128).threads, 32);
  EXPECT_EQ(grid_of_rows(8, 129).threads, 64);
  EXPECT_EQ(grid_of_rows(8, 1 << 20).threads, Team::max_threads);
}

TEST(Geometry, a_sum_is_split_only_as_far_as_its_parts_stay_long) {
  EXPECT_EQ(parts_of_sum(10, 63), 1);
  EXPECT_EQ(parts_of_sum(1, 6400), 100);
  EXPECT_EQ(parts_of_sum(1 << 20, 1 << 20), 1);
  for (const std::int64_t rows : {1, 63, 64, 1000, 123457}) {
    const Matrix matrix = matrix_of_rows(rows, 16);
    EXPECT_GE(parts_of(matrix) * rows_of_part(matrix), rows);
    EXPECT_LT((parts_of(matrix) - 1) * rows_of_part(matrix), rows) << "a part of " << rows << " is empty";
  }
}

TEST(Divisor, divides_as_the_processor_does) {
  const std::int64_t last = end_of_dividends - 1;
  for (const std::int64_t divisor :
       {1L, 2L, 3L, 5L, 7L, 16L, 49L, 641L, 1000L, 65535L, 65536L, 65537L, last}) {
    const Divisor by(divisor);
    for (std::int64_t k = 0; k < 2000; ++k) {
      for (const std::int64_t n : {k, last - k, k * divisor, k * divisor - 1, k * 1048573}) {
        if (n < 0 || n > last) continue;
        const auto dividend = static_cast<std::uint32_t>(n);
        ASSERT_EQ(by.quotient(dividend), n / divisor) << n << " / " << divisor;
        ASSERT_EQ(by.remainder(dividend), n % divisor) << n << " % " << divisor;
      }
    }
  }
}

TEST(Matrix, finds_the_elements_of_each_layout) {
  const std::int64_t samples = 2, channels = 3, pixels = 5;
  const Matrix planes{samples * pixels, channels, pixels, channels * pixels, 1, pixels};
  const Matrix last{samples * pixels, channels, pixels, channels * pixels, channels, 1};
  EXPECT_GT(planes.threads_each(), 1);
  EXPECT_EQ(last.threads_each(), 1);
  for (std::int64_t row = 0; row < samples * pixels; ++row) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t sample = row / pixels, pixel = row % pixels;
      EXPECT_EQ(planes.at(row, c), (sample * channels + c) * pixels + pixel);
      EXPECT_EQ(last.at(row, c), row * channels + c);
      EXPECT_EQ(matrix_of_rows(samples * pixels, channels).at(row, c), row * channels + c);
    }
  }
}

TEST(Walk, goes_through_a_tensor_once) {
  const Shape shape{2, 3, 4, 5};
  const std::int64_t axes[] = {0, 2};
  const SplitWalk walk = split_walk(shape, axes);
  std::vector<int> seen(120, 0);
  for (std::int64_t r = 0; r < walk.kept.elements; ++r) {
    for (std::int64_t j = 0; j < walk.summed.elements; ++j)
      ++seen[static_cast<std::size_t>(walk.kept.offset(r) + walk.summed.offset(j))];
  }
  for (const int times : seen) EXPECT_EQ(times, 1);
  // Element (1, 2, 3, 4) of the whole is (2, 4) in the kept dimensions and (1, 3) in the summed ones.
  EXPECT_EQ(walk.kept.offset(2 * 5 + 4) + walk.summed.offset(1 * 4 + 3), 119);
}

TEST(Generator, draws_the_numbers_of_the_hosts) {
  for (std::uint32_t i = 0; i < 20; ++i) {
    const auto expected = assay::philox4x32({i, 7, 0x1234 * i, 0xffffffffU - i}, {99 + i, 5});
    const Words words = philox4x32({{i, 7, 0x1234 * i, 0xffffffffU - i}}, 99 + i, 5);
    for (std::size_t w = 0; w < 4; ++w) EXPECT_EQ(words.word[w], expected[w]);
  }
}

TEST(Bf16, rounds_to_nearest_even_and_keeps_a_nan) {
  EXPECT_EQ(narrow<Bf16>(1.0F).bits, 0x3f80);
  EXPECT_EQ(narrow<Bf16>(1.00390625F).bits, 0x3f80);  // half a step up from an even number
  EXPECT_EQ(narrow<Bf16>(1.01171875F).bits, 0x3f82);  // and from an odd one
  EXPECT_TRUE(std::isnan(widen(narrow<Bf16>(NAN))));
  EXPECT_EQ(widen(Bf16{0xc000}), -2.0F);
}

struct Counted {
  std::int64_t which;
  std::int64_t first = 0;
};

TEST(TensorTable, LaunchesEachShareOnceHoweverManyTensorsThereAre) {
  constexpr std::int64_t tensors = 2 * max_tensors;
  TensorTable<Counted> table;
  std::vector<std::int64_t> launched(tensors, 0);
  int launches = 0;
  const auto launch = [&] {
    ++launches;
    for (std::int64_t i = 0; i < table.shares; ++i) ++launched[static_cast<std::size_t>(table.at(i).which)];
  };
  for (std::int64_t t = 0; t < tensors; ++t) table.add({t}, 1 + t % 3, launch);
  EXPECT_EQ(launches, 2);
  EXPECT_EQ(table.shares, 0) << "nothing is left";
  table.add({0}, 5, launch);
  launch();
  for (std::int64_t t = 0; t < tensors; ++t)
    EXPECT_EQ(launched[static_cast<std::size_t>(t)], 1 + t % 3 + (t == 0 ? 5 : 0)) << t;
}

}  // namespace
}  // namespace assay::cuda
