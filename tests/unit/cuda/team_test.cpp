// Teams of several threads on the host, with which the conformance rows run a second time.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "backends/cuda/host/host_launch.hpp"
#include "backends/cuda/kernels/long_sum.hpp"

namespace assay::cuda {
namespace {

// What each thread of a team of `threads` returns.
template <typename T, typename Body>
std::vector<T> of_each(int threads, const Body& body) {
  std::vector<T> results(static_cast<std::size_t>(threads));
  run_team(threads, [&](const Team& team) { results[static_cast<std::size_t>(team.rank())] = body(team); });
  return results;
}

TEST(HostTeam, GivesAllThreadsTheSameSumAndMaximum) {
  const auto sums =
      of_each<float>(32, [](const Team& team) { return team.sum(static_cast<float>(team.rank())); });
  EXPECT_EQ(sums, std::vector<float>(32, 496));
  const auto largest = of_each<float>(
      32, [](const Team& team) { return team.max(static_cast<float>((team.rank() * 7) % 32)); });
  EXPECT_EQ(largest, std::vector<float>(32, 31));
}

TEST(HostTeam, SumsEachLane) {
  const auto sums = of_each<float>(
      64, [](const Team& team) { return team.sum_of_lane(team.rank() % 4 == 1 ? 1.0F : 0.0F, 4); });
  for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i], i % 4 == 1 ? 16 : 0);
}

TEST(HostTeam, CountsWhatIsBeforeAThread) {
  const auto before = of_each<std::int32_t>(64, [](const Team& team) { return team.before(team.rank()); });
  for (std::int32_t i = 0; i < 64; ++i) EXPECT_EQ(before[static_cast<std::size_t>(i)], i * (i - 1) / 2);
}

TEST(HostTeam, SharesTheTermsOfALongSum) {
  const auto sums = of_each<float>(128, [](const Team& team) {
    return team.sum(long_sum(team, 0, 1000, [](std::int64_t i) { return static_cast<float>(i); }));
  });
  EXPECT_EQ(sums, std::vector<float>(128, 499500));
}

// Each thread writes its rank and reads its neighbour's.
int sum_of_neighbours(bool waits) {
  std::vector<int> written(32);
  const auto read = of_each<int>(32, [&](const Team& team) {
    const auto rank = static_cast<std::size_t>(team.rank());
    written[rank] = team.rank();
    if (waits) team.wait();
    return written[(rank + 1) % 32];
  });
  return std::accumulate(read.begin(), read.end(), 0);
}

TEST(HostTeam, ShowsAMissingBarrier) {
  EXPECT_EQ(sum_of_neighbours(true), 496);
  EXPECT_NE(sum_of_neighbours(false), 496);
}

TEST(HostTeamDeathTest, EndsWhereNotAllThreadsReachABarrier) {
  const auto diverges = [](const Team& team) {
    if (team.rank() != 3) team.wait();
  };
  EXPECT_DEATH(run_team(32, diverges), "1 of 32 threads of a team ended while the others wait");
}

}  // namespace
}  // namespace assay::cuda
