#include "harness/conductor/run/roofline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/temporary_folder.hpp"
#include "workloads/ops/op_workload.hpp"

namespace assay {
namespace {

using ::testing::HasSubstr;

Axes cold() {
  Axes axes;
  axes.size = "4096";
  axes.cache = CacheState::cold;
  return axes;
}

Axes warm() {
  Axes axes = cold();
  axes.cache = CacheState::warm;
  return axes;
}

constexpr Work work{.flops = 1e9, .bytes = 3e9, .peak_flops = 1e11, .copy_bandwidth = 1e10};

TEST(Roofline, arithmetic_may_reach_a_tenth_above_the_peak_and_no_more) {
  EXPECT_EQ(beyond_roofline(warm(), work, 0, 0.01), "");
  EXPECT_EQ(beyond_roofline(warm(), work, 0, 0.01 / 1.09), "");
  EXPECT_THAT(beyond_roofline(warm(), work, 0, 0.01 / 1.12), HasSubstr("fastest matrix product"));
  EXPECT_EQ(beyond_roofline(warm(), work, 0, 0.01 / 3.9, 4), "") << "a network with convolutions";
}

TEST(Roofline, MeasuresAProductThatNoCacheHoldsAndOneThatFits) {
  const auto bytes = [](const std::string& size) {
    return 4 * input_elements(find_op_workload("op/gemm").program(size).training.value());
  };
  std::vector<std::int64_t> all;
  for (const std::string& size : product_sizes(DeviceKind::cpu)) all.push_back(bytes(size));
  EXPECT_THAT(all, ::testing::ElementsAre(::testing::Gt(30 << 20), ::testing::Le(3 << 20)));
  for (const std::string& size :
       {product_sizes(DeviceKind::cuda).front(), quick_product_size(DeviceKind::cuda)})
    EXPECT_GE(bytes(size), std::int64_t{512} << 20) << "a smaller one leaves tensor cores idle";
}

TEST(Roofline, IsALimitOnceItWasMeasuredWithoutOthers) {
  MachinePeak peak;
  peak.add(1e11, false);
  EXPECT_FALSE(peak.is_limit);
  EXPECT_EQ(peak.rate, 1e11);
  peak.add(0, true);  // it failed
  EXPECT_FALSE(peak.is_limit);
  peak.add(5e10, true);
  EXPECT_TRUE(peak.is_limit);
  EXPECT_EQ(peak.rate, 1e11);
}

TEST(Roofline, AllowsASingleConvolutionWhatItAllowsInANetwork) {
  const auto allowed = [](const char* name) {
    const OpWorkload& op = find_op_workload(name);
    return allowed_over_peak(op.program(op.default_size));
  };
  EXPECT_DOUBLE_EQ(allowed("op/gemm"), 1.1);
  EXPECT_DOUBLE_EQ(allowed("op/convolution"), 6) << "Winograd's algorithm";
}

TEST(Roofline, warm_operands_may_come_faster_than_memory_and_cold_ones_not) {
  EXPECT_EQ(beyond_roofline(warm(), work, 2e9, 0.05), "");
  EXPECT_EQ(beyond_roofline(cold(), work, 2e9, 0.11), "");
  EXPECT_THAT(beyond_roofline(cold(), work, 2e9, 0.09), HasSubstr("no cache holds"));
}

TEST(Roofline, refuses_nothing_where_it_was_not_measured) {
  EXPECT_EQ(beyond_roofline(cold(), {.flops = 1e20, .bytes = 1e20}, 1e20, 1e-3), "");
  EXPECT_EQ(beyond_roofline(cold(), work, 1e20, 0), "") << "no block was timed";
}

TEST(Roofline, a_fork_has_the_median_of_its_timed_blocks) {
  Fork fork;
  fork.blocks = {{.kind = BlockKind::warm_up, .steps = 1, .begin_ns = 0, .end_ns = 1'000'000'000},
                 {.kind = BlockKind::timed, .steps = 10, .begin_ns = 0, .end_ns = 10'000},
                 {.kind = BlockKind::timed, .steps = 10, .begin_ns = 0, .end_ns = 20'000},
                 {.kind = BlockKind::timed, .steps = 10, .begin_ns = 0, .end_ns = 90'000}};
  EXPECT_DOUBLE_EQ(least_step(fork), 2e-6);
  EXPECT_EQ(least_step({}), 0);
  fork.device_timed = protocol::DeviceTimed{.steps = 10, .step_seconds = {3e-7, 1e-7, 2e-7}};
  EXPECT_DOUBLE_EQ(least_step(fork), 2e-7) << "without the host";
  fork.device_timed = protocol::DeviceTimed{.reason = "why"};
  EXPECT_DOUBLE_EQ(least_step(fork), 2e-6);
}

TEST(PeakMemory, KnowsTheMachineAndItsSpeed) {
  const auto machine = [](const char* model, double loop_seconds) {
    return MachineRecord{.cpu = {.model = model, .allowed = 2, .loop_seconds = loop_seconds}};
  };
  const TemporaryFolder folder;
  const PeakMemory memory(MachineStore(folder / "peaks"));
  const MachineRecord here = machine("a processor", 300e-6), slow = machine("a processor", 350e-6);
  memory.keep("cpu/fp32/t2", 2e11, here);
  memory.keep("cpu/fp32/t2", 1e11, here);
  EXPECT_EQ(memory.rate("cpu/fp32/t2", here), 2e11) << "the larger one";
  EXPECT_EQ(memory.rate("cpu/fp32/t2", machine("a processor", 340e-6)), 2e11);
  EXPECT_FALSE(memory.rate("cpu/bf16/t2", here));
  EXPECT_FALSE(memory.rate("cpu/fp32/t2", slow));
  EXPECT_FALSE(memory.rate("cpu/fp32/t2", machine("another", 300e-6)));
  memory.keep("cpu/fp32/t2", 1e11, slow);
  EXPECT_EQ(memory.rate("cpu/fp32/t2", slow), 1e11) << "it replaces that of the other speed";
  EXPECT_FALSE(memory.rate("cpu/fp32/t2", here));
  const MachineRecord unknown{.cpu = {.allowed = 2}};
  memory.keep("cpu/fp32/t2", 1e11, unknown);
  EXPECT_FALSE(memory.rate("cpu/fp32/t2", unknown)) << "two unknown machines are not one";
}

}  // namespace
}  // namespace assay
