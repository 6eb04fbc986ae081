#include "backends/onednn/layout.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "backends/onednn/library.hpp"
#include "harness/worker/backend.hpp"

namespace assay::onednn {
namespace {

// Moves values from `a` to `b` through the library and back.
std::vector<float> there_and_back(const TensorType& type, const Format& b, const std::vector<float>& values) {
  OnednnLibrary library(1);
  const Format a = library.plain(type);
  std::vector<float> there(static_cast<std::size_t>(b.bytes) / sizeof(float), -1.0F),
      back(values.size(), -1.0F);
  const auto move = [&](const Format& from, const Format& to, const float* source, float* target) {
    const auto kernel = library.reorder(type, from, to);
    void* in = const_cast<float*>(source);
    void* out = target;
    kernel->bind({&in, 1}, {&out, 1}, nullptr);
    kernel->run();
  };
  move(a, b, values.data(), there.data());
  move(b, a, there.data(), back.data());
  return back;
}

std::vector<float> counted(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST(Layout, one_channel_is_the_same_in_every_order_of_channels) {
  const TensorType type{DType::f32, {3, 1, 5, 4}};
  EXPECT_EQ(to_format(with_tag(type, Tag::nhwc)), to_format(row_major(type)));
  const TensorType two{DType::f32, {3, 2, 5, 4}};
  EXPECT_NE(to_format(with_tag(two, Tag::nhwc)).key, to_format(row_major(two)).key);
}

TEST(Layout, a_padded_block_is_not_a_dense_matrix) {
  const TensorType padded{DType::f32, {3, 6, 5, 4}}, full{DType::f32, {3, 32, 5, 4}};
  EXPECT_EQ(dense_image_tag(with_tag(padded, Tag::nChw16c)), Tag::undef);
  EXPECT_EQ(dense_image_tag(with_tag(full, Tag::nChw16c)), Tag::nChw16c);
  EXPECT_EQ(image_tag(with_tag(padded, Tag::nChw16c)), Tag::nChw16c);
}

TEST(Layout, f64_is_unsupported) { EXPECT_THROW(row_major({DType::f64, {2}}), Unsupported); }

TEST(Reorder, brings_padded_channels_back) {
  const TensorType type{DType::f32, {3, 6, 5, 4}};
  const auto values = counted(type.elements());
  EXPECT_EQ(there_and_back(type, to_format(with_tag(type, Tag::nChw16c)), values), values);
}

TEST(Reorder, permutes_the_features_of_a_flattened_image_and_back) {
  const TensorType type{DType::f32, {3, 6 * 5 * 4}};
  const auto values = counted(type.elements());
  const Format flattened = to_format(row_major(type), {Tag::nhwc, 6, 5, 4});
  EXPECT_EQ(there_and_back(type, flattened, values), values);
  OnednnLibrary library(1);
  std::vector<float> permuted(values.size());
  const auto kernel = library.reorder(type, library.plain(type), flattened);
  void* in = const_cast<float*>(values.data());
  void* out = permuted.data();
  kernel->bind({&in, 1}, {&out, 1}, nullptr);
  kernel->run();
  EXPECT_EQ(permuted[1], 1.0F + 5 * 4);  // (h, w, c) = (0, 0, 1) is feature c * H * W of the row-major order
}

}  // namespace
}  // namespace assay::onednn
