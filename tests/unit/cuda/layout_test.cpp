#include "backends/cuda/layout.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "backends/cuda/library.hpp"

namespace assay::cuda {
namespace {

TEST(Layout, one_channel_or_one_pixel_is_the_same_in_both) {
  for (const Shape& shape : {Shape{3, 1, 5, 4}, Shape{3, 8, 1, 1}, Shape{3, 8}, Shape{}})
    EXPECT_EQ(format_of({DType::f32, shape}, Layout::channels_last),
              format_of({DType::f32, shape}, Layout::plain));
  const TensorType image{DType::f32, {3, 2, 5, 4}};
  EXPECT_NE(format_of(image, Layout::channels_last).key, format_of(image, Layout::plain).key);
}

TEST(Layout, a_format_says_its_layout) {
  const TensorType image{DType::bf16, {3, 2, 5, 4}};
  for (const Layout layout : {Layout::plain, Layout::channels_last}) {
    EXPECT_EQ(layout_of(format_of(image, layout)), layout);
    EXPECT_EQ(layout_of(opaque_format(8, layout)), layout);
  }
}

TEST(Layout, a_reorder_puts_channels_last_and_back) {
  CompileOptions options;
  options.mode = "graph";
  const auto library = make_kernel_library(options);
  const TensorType type{DType::f32, {2, 3, 2, 2}};
  const Format plain = library->plain(type), last = format_of(type, Layout::channels_last);
  std::vector<float> image(24), there(24), back(24);
  std::iota(image.begin(), image.end(), 0.0F);
  const auto move = [&](const Format& from, const Format& to, std::vector<float>& source,
                        std::vector<float>& target) {
    const auto kernel = library->reorder(type, from, to);
    void *in = source.data(), *out = target.data();
    kernel->bind({&in, 1}, {&out, 1}, nullptr);
    kernel->run();
  };
  move(plain, last, image, there);
  move(last, plain, there, back);
  EXPECT_EQ(std::vector<float>(there.begin(), there.begin() + 6), (std::vector<float>{0, 4, 8, 1, 5, 9}));
  EXPECT_EQ(back, image);
}

}  // namespace
}  // namespace assay::cuda
