#include "harness/report/gpu_metrics.hpp"
#include "harness/report/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/conductor/fork/quality.hpp"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t second = 1'000'000'000;

Block block_at(BlockKind kind, double begin, double end, int epoch = 0) {
  Block made;
  made.kind = kind;
  made.epoch = epoch;
  made.steps = 10;
  made.begin_ns = static_cast<std::int64_t>(begin * second);
  made.end_ns = static_cast<std::int64_t>(end * second);
  return made;
}

// A second of warm-up and two of timed blocks, with a look each quarter of a second from 0 to 4 s. The GPU
// draws 100 W, and 300 W in the timed blocks; a sample describes the second before it.
Fork fork_of_steps() {
  Fork fork;
  fork.status = Status::ok;
  fork.gpu.emplace();
  fork.gpu->model = "A Card";
  fork.gpu->worker_peak = 300;
  fork.gpu->device_peak = 400;
  fork.blocks = {block_at(BlockKind::warm_up, 1, 2), block_at(BlockKind::timed, 2, 3),
                 block_at(BlockKind::timed, 3, 4)};
  double joules = 5000;
  for (int i = 0; i <= 16; ++i) {
    MachineSample sample;
    sample.time_ns = i * second / 4;
    sample.gpu = GpuReading{};
    sample.gpu->utilisation = 0.05 * i;
    sample.gpu->energy_joules = joules;
    sample.gpu->sm_clock_hz = 1980e6;
    sample.gpu->throttle = std::vector<std::string>();
    joules += (i >= 8 ? 300 : 100) * 0.25;
    fork.samples.push_back(sample);
  }
  return fork;
}

TEST(GpuMetrics, utilisation_uses_samples_after_a_second_of_steps) {
  // Looks at 2.0 to 4.0 s, of i = 8 to 16.
  EXPECT_NEAR(*gpu_utilisation(fork_of_steps()).value, 0.05 * 12, 1e-12);
  Fork paused = fork_of_steps();
  paused.blocks[1].end_ns = 2'500'000'000;  // half a second of evaluation before the last block
  // Those at 2.0, 2.25, 2.5 s; the next has a whole second before it at 4.0 s.
  EXPECT_NEAR(*gpu_utilisation(paused).value, 0.05 * (8 + 9 + 10 + 16) / 4, 1e-12);
}

TEST(GpuMetrics, power_is_that_of_the_timed_blocks_and_energy_that_of_a_step) {
  EXPECT_NEAR(*gpu_power(fork_of_steps()).value, 300, 1e-9);
  EXPECT_NEAR(*gpu_energy(fork_of_steps()).value, 300 * 2.0 / 20, 1e-9);
  Fork between = fork_of_steps();  // half of the time between two looks
  between.blocks = {block_at(BlockKind::timed, 1.875, 2.875)};
  EXPECT_NEAR(*gpu_power(between).value, 0.125 * 100 + 0.875 * 300, 1e-9);
}

TEST(GpuMetrics, EnergyIsAlsoThatOfASampleAndSpeedAlsoAShareOfThePeak) {
  CellReport cell;
  cell.status = Status::ok;
  cell.axes.device = DeviceKind::cuda;
  cell.axes.batch = 10;
  cell.forks = {fork_of_steps()};
  cell.work.flops = 1e9;
  EXPECT_NEAR(*metrics_of(cell).at("energy_per_sample").value, 300 * 2.0 / 20 / 10, 1e-9);
  EXPECT_THAT(metrics_of(cell).at("peak_share").reason, HasSubstr("no peak of this machine"));
  cell.work.peak_flops = 1e12;
  EXPECT_NEAR(*metrics_of(cell).at("peak_share").value, 1e9 / (2.0 / 20) / 1e12, 1e-12);
}

TEST(GpuMetrics, LeaveOutTheFirstEpoch) {
  Fork fork = fork_of_steps();
  fork.blocks = {block_at(BlockKind::timed, 0, 2, 1), block_at(BlockKind::timed, 2, 4, 2)};
  EXPECT_NEAR(*gpu_power(fork).value, 300, 1e-9);
}

TEST(GpuMetrics, AreNullIfStepsAreTooShort) {
  Fork fork = fork_of_steps();
  fork.blocks = {block_at(BlockKind::warm_up, 2, 2.1), block_at(BlockKind::timed, 2.1, 2.3)};
  EXPECT_THAT(gpu_utilisation(fork).reason, HasSubstr("too short"));
  EXPECT_THAT(gpu_power(fork).reason, HasSubstr("too short"));
  fork.blocks = {block_at(BlockKind::timed, 3, 9)};
  EXPECT_THAT(gpu_energy(fork).reason, HasSubstr("outside of the samples"));
}

TEST(GpuMetrics, OfTimesThatAreFarApartDoNotOverflow) {
  constexpr std::int64_t far = 6'000'000'000'000'000'000;
  Fork fork = fork_of_steps();
  fork.blocks = {block_at(BlockKind::timed, 0, 1)};
  fork.blocks[0].begin_ns = -far;
  fork.blocks[0].end_ns = far;
  fork.samples.resize(2);
  fork.samples[0].time_ns = -far;
  fork.samples[0].gpu->energy_joules = 0;
  fork.samples[1].time_ns = far;
  fork.samples[1].gpu->energy_joules = 12e9;
  EXPECT_NEAR(gpu_power(fork).value.value_or(0), 1, 1e-6);
}

TEST(GpuMetrics, peaks_are_those_of_the_worker_and_of_the_device) {
  const Fork fork = fork_of_steps();
  EXPECT_EQ(device_peak_memory(fork).value, 300.0);
  EXPECT_EQ(device_peak_used(fork).value, 400.0);
}

TEST(GpuMetrics, have_a_reason_if_absent) {
  Fork fork = fork_of_steps();
  fork.gpu->missing = {
      {"gpu_utilisation", "nvmlDeviceGetUtilizationRates: GPU is lost (15), in 1 of 17 looks"}};
  fork.samples[12].gpu->utilisation.reset();
  EXPECT_THAT(gpu_utilisation(fork).reason, HasSubstr("GPU is lost (15), in 1 of 17"));
  EXPECT_TRUE(gpu_power(fork).value);
  fork.samples[16].gpu->energy_joules = 0;
  EXPECT_THAT(gpu_power(fork).reason, HasSubstr("ran backwards"));
  fork.gpu->reason = "NVML is not here";
  for (const auto metric : {gpu_utilisation, gpu_power, gpu_energy, device_peak_memory, device_peak_used})
    EXPECT_EQ(metric(fork).reason, "NVML is not here");
  fork.gpu.reset();
  EXPECT_EQ(gpu_energy(fork).reason, "the GPU was not sampled");
}

TEST(GpuMetrics, ignores_clock_changes_outside_of_timed_blocks) {
  Fork fork = fork_of_steps();
  fork.samples[2].gpu->sm_clock_hz = 300e6;
  fork.samples[10].gpu->sm_clock_hz = 1965e6;
  add_warnings(fork);
  EXPECT_THAT(fork.warnings, IsEmpty());
  fork.samples[10].gpu->sm_clock_hz = 1410e6;
  add_warnings(fork);
  EXPECT_THAT(fork.warnings, ElementsAre(HasSubstr("1410 to 1980 MHz")));
}

}  // namespace
}  // namespace assay
