// Masks that a program draws, and masks that are given to it, on the executor that the kernel backends share.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/engine/mask_draw.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay {
namespace {

using namespace testing;

Program dropping(std::int64_t samples) {
  const Workload workload{.name = "dropping",
                          .description = {},
                          .source = {},
                          .dataset = {},
                          .sample_shape = {2, 8, 8},
                          .classes = 10,
                          .batch = samples,
                          .optimizer = {.kind = "sgd"},
                          .learning_rate = 1e-3,
                          .network = [](GraphBuilder& b, ValueId x, std::int64_t classes) {
                            x = b.relu(b.convolution("conv1", x, 8, {3, 1, 1}));
                            x = b.dropout(b.max_pool(x, {2, 2, 0}), 0.25, "drop1");
                            x = b.dropout(b.relu(b.linear("fc1", b.flatten(x), 64)), 0.5, "drop2");
                            return b.linear("fc2", x, classes);
                          }};
  return workload.build(samples);
}

std::unique_ptr<Executable> compiled(const Program& program, const CompileOptions& how) {
  auto executable = reference::ReferenceBackend().compile(program, how);
  executable->set_state(parameters(program, 1));
  executable->stage(0, batch(program, 3).host());
  return executable;
}

std::vector<std::vector<std::byte>> bytes(const std::vector<HostTensor>& tensors) {
  std::vector<std::vector<std::byte>> all;
  for (const HostTensor& tensor : tensors) all.push_back(tensor.bytes);
  return all;
}

double kept_share(const HostTensor& mask) {
  const auto elements = mask.as<std::uint8_t>();
  return static_cast<double>(std::ranges::count(elements, 1)) / static_cast<double>(elements.size());
}

class Dropout : public ::testing::TestWithParam<const char*> {};

TEST_P(Dropout, draws_again_each_step_with_the_share_of_the_rate) {
  const Program program = dropping(32);
  const auto executable = compiled(program, options(GetParam()));
  executable->step(0, 0, 1);
  const auto first = executable->masks();
  executable->step(0, 0, 2);
  const auto second = executable->masks();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].name, "drop1.mask");
  EXPECT_EQ(first[0].type, (TensorType{DType::u8, {32, 8, 4, 4}}));
  // 4096 and 2048 elements: six standard deviations.
  EXPECT_NEAR(kept_share(first[0]), 0.75, 0.041);
  EXPECT_NEAR(kept_share(first[1]), 0.5, 0.067);
  for (std::size_t m = 0; m < 2; ++m) EXPECT_NE(first[m].bytes, second[m].bytes);
}

TEST_P(Dropout, draws_only_by_seed_and_step) {
  const Program program = dropping(8);
  CompileOptions how = options(GetParam());
  const auto drawn = [&](int threads, std::uint64_t seed, std::int64_t step) {
    how.threads = threads;
    how.seed = seed;
    const auto executable = compiled(program, how);
    executable->step(0, 0, step);
    return bytes(executable->masks());
  };
  EXPECT_EQ(drawn(1, 7, 5), drawn(3, 7, 5));
  EXPECT_NE(drawn(1, 7, 5), drawn(1, 8, 5));
  EXPECT_NE(drawn(1, 7, 5), drawn(1, 7, 6));
}

TEST_P(Dropout, uses_supplied_masks_until_it_may_draw_again) {
  const Program program = dropping(4);
  const auto executable = compiled(program, options(GetParam()));
  executable->step(0, 0, 1);
  std::vector<HostTensor> masks = executable->masks();
  for (HostTensor& mask : masks) std::ranges::fill(mask.as<std::uint8_t>(), std::uint8_t{0});
  executable->supply_masks(masks);
  for (const std::int64_t step : {1, 2}) {
    executable->step(0, 0, step);
    EXPECT_EQ(bytes(executable->masks()), bytes(masks));
  }
  // Nothing comes through: the logits are the last bias, which is the same for every sample.
  for (const HostTensor& tensor : executable->gradients(batch(program, 3).host())) {
    if (tensor.name != "gradient/fc2.weight" && tensor.name != "gradient/conv1.weight") continue;
    EXPECT_TRUE(std::ranges::all_of(tensor.as<float>(), [](float g) { return g == 0; })) << tensor.name;
  }
  executable->set_state(parameters(program, 1));
  executable->step(0, 0, 3);
  EXPECT_EQ(bytes(executable->masks()), bytes(masks)) << "set_state() drew";
  executable->supply_masks({});
  executable->step(0, 0, 4);
  EXPECT_GT(kept_share(executable->masks()[1]), 0.2);
}

TEST_P(Dropout, KeepsMasksOutOfStateAndEvaluation) {
  const Program program = dropping(4);
  const auto executable = compiled(program, options(GetParam()));
  for (const HostTensor& tensor : executable->state()) EXPECT_EQ(tensor.name.find("mask"), std::string::npos);
  const Batch fed = batch(program, 3);
  std::vector<float> once(40), again(40);
  executable->evaluate(fed.host(), once.data());
  executable->evaluate(fed.host(), again.data());
  EXPECT_EQ(once, again);
}

INSTANTIATE_TEST_SUITE_P(Modes, Dropout, ::testing::Values("graph", "eager"));

TEST(MaskDraw, depends_on_no_division_of_the_range) {
  const MaskDraw draw{7, 11, 3, MaskDraw::dropped_of(0.3)};
  std::vector<std::uint8_t> whole(1003), parts(1003, 9);
  draw_mask(draw, 0, 1003, whole.data());
  draw_mask(draw, 0, 512, parts.data());
  draw_mask(draw, 512, 1003, parts.data());
  EXPECT_EQ(whole, parts);
}

TEST(MaskDraw, keeps_all_at_rate_zero) {
  std::vector<std::uint8_t> mask(100);
  draw_mask({7, 11, 3, MaskDraw::dropped_of(0)}, 0, 100, mask.data());
  EXPECT_EQ(std::ranges::count(mask, 1), 100);
}

}  // namespace
}  // namespace assay
