// The search for the fastest engine, with engines that are not there.
#include "backends/cuda/engine_search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cuda/kernels/portable.hpp"
#include "harness/engine/host_backed_memory.hpp"
#include "harness/worker/backend.hpp"

namespace assay::cuda {
namespace {

using ::testing::ElementsAre;

struct Engine {
  double seconds = 1;
  std::int64_t workspace = 0;
  bool generated = false;
  bool builds = true;
  bool runs = true;
  double error = 0;
};

// Fills each engine's workspace while it is measured.
class ListedEngines final : public Engines {
 public:
  explicit ListedEngines(std::vector<Engine> engines) : engines_(std::move(engines)) {}
  std::int64_t count() const override { return static_cast<std::int64_t>(engines_.size()); }
  bool is_generated(std::int64_t engine) const override { return at(engine).generated; }
  bool build(std::int64_t engine) override {
    if (!at(engine).builds) return false;
    built.push_back(engine);
    return true;
  }
  std::int64_t workspace_bytes(std::int64_t engine) const override { return at(engine).workspace; }
  std::optional<double> measure(std::int64_t engine, void* workspace) override {
    std::memset(workspace, 0xff, static_cast<std::size_t>(at(engine).workspace));
    if (!at(engine).runs) return {};
    return at(engine).seconds;
  }
  double error(std::int64_t engine, void*) override { return at(engine).error; }

  std::vector<std::int64_t> built;

 private:
  const Engine& at(std::int64_t engine) const { return engines_[static_cast<std::size_t>(engine)]; }
  std::vector<Engine> engines_;
};

// The host's memory, which refuses a large allocation.
class SmallMemory final : public HostBackedMemory {
 public:
  explicit SmallMemory(std::int64_t limit) : limit_(limit) {}
  void* allocate(std::int64_t bytes, const char* purpose) override {
    if (bytes > limit_) throw OutOfMemory(purpose);
    ++held;
    return host_memory().allocate(bytes, purpose);
  }
  void release(void* pointer) noexcept override {
    --held;
    host_memory().release(pointer);
  }

  int held = 0;

 private:
  std::int64_t limit_;
};

TEST(EngineSearch, TakesTheFastestThatRuns) {
  ListedEngines engines({{.seconds = 3},
                         {.seconds = 0.5, .runs = false},
                         {.seconds = 1, .builds = false},
                         {.seconds = 2, .workspace = 1000}});
  const auto found = fastest_engine(engines, host_memory()).fastest;
  ASSERT_TRUE(found);
  EXPECT_EQ(found->engine, 3);
  EXPECT_EQ(found->seconds, 2);
}

TEST(EngineSearch, LeavesOutFasterEnginesThatAreWrong) {
  ListedEngines engines({{.seconds = 3, .error = 1e-7},
                         {.seconds = 1, .error = 1e-3},
                         {.seconds = 2, .error = std::nan("")},
                         {.seconds = 4, .error = 1}});
  const SearchResult found = fastest_engine(engines, host_memory(), {.error = 1e-5});
  ASSERT_TRUE(found.fastest);
  EXPECT_EQ(found.fastest->engine, 0);
  ASSERT_EQ(found.wrong.size(), 2U) << "the slower one was not asked";
  EXPECT_EQ(found.wrong[0].engine, 1);
  EXPECT_EQ(found.wrong[0].error, 1e-3);
  EXPECT_EQ(found.wrong[1].engine, 2);
  EXPECT_FALSE(fastest_engine(engines, host_memory(), {.error = 1e-9}).fastest);
}

TEST(EngineSearch, AllowsWhatRoundingExplains) {
  constexpr DType f32 = DType::f32, bf16 = DType::bf16;
  for (const std::int64_t terms : {10, 1000, 1'000'000}) {
    const double strict = allowed_error(f32, f32, false, terms);
    EXPECT_GT(strict, 0x1p-24 * std::sqrt(static_cast<double>(terms) / 2));
    EXPECT_LT(strict, 2.9e-4 / 2) << "operands rounded to TF32 show in strict fp32";
    EXPECT_GT(allowed_error(f32, f32, true, terms), 0x1p-11);
    EXPECT_GT(allowed_error(bf16, bf16, false, terms), 0x1p-9);
    EXPECT_GT(allowed_error(bf16, f32, false, terms), 0x1p-24 * static_cast<double>(terms) / 16);
  }
}

TEST(EngineSearch, MeasuresTheDistanceOfResults) {
  std::vector<float> expected(10000, 2), result = expected;
  const auto distance = [&] {
    return relative_distance({}, host_memory(), DType::f32, result.data(), expected.data(), 10000);
  };
  EXPECT_EQ(distance(), 0);
  result[4321] = 3;
  EXPECT_NEAR(distance(), 1.0 / 200, 1e-9);
  result[4321] = NAN;
  EXPECT_FALSE(distance() <= 1);
  const std::vector<float> zeros(10000, 0);
  EXPECT_EQ(relative_distance({}, host_memory(), DType::f32, zeros.data(), zeros.data(), 10000), 0);
  EXPECT_FALSE(relative_distance({}, host_memory(), DType::f32, expected.data(), zeros.data(), 10000) <= 1);
}

TEST(EngineSearch, FindsNothingIfNoEngineRuns) {
  ListedEngines engines({{.runs = false}, {.builds = false}});
  EXPECT_FALSE(fastest_engine(engines, host_memory()).fastest);
}

TEST(EngineSearch, StopsAfterAFewBuilds) {
  std::vector<Engine> many(20);
  many[1].builds = false;
  ListedEngines engines(many);
  fastest_engine(engines, host_memory());
  EXPECT_THAT(engines.built, ElementsAre(0, 2, 3, 4, 5, 6, 7, 8));
}

TEST(EngineSearch, GeneratesOnlyAFewEngines) {
  std::vector<Engine> mixed(12, {.generated = true});
  mixed[0].builds = false;
  mixed[8].generated = mixed[9].generated = false;
  ListedEngines engines(mixed);
  fastest_engine(engines, host_memory());
  EXPECT_THAT(engines.built, ElementsAre(1, 2, 8, 9));
}

// The caller keeps the engine that it built first, with the workspace that it has for it.
TEST(EngineSearch, MeasuresNothingWithoutRoomForTheLargestWorkspace) {
  ListedEngines engines({{.seconds = 2, .workspace = 10}, {.seconds = 1, .workspace = 1000}});
  SmallMemory little(500), enough(1000);
  EXPECT_THROW(fastest_engine(engines, little), OutOfMemory);
  const auto found = fastest_engine(engines, enough).fastest;
  ASSERT_TRUE(found);
  EXPECT_EQ(found->engine, 1);
  EXPECT_EQ(little.held + enough.held, 0);
}

TEST(EngineSearch, FillsBuffersWithNumbersOfTheirType) {
  std::vector<float> wide(300000, 7);
  fill_with_noise(host_memory(), wide.data(), static_cast<std::int64_t>(wide.size()) * 4, DType::f32);
  std::vector<Bf16> narrow(1001, Bf16{0x7fc0});
  fill_with_noise(host_memory(), narrow.data(), 2002, DType::bf16);
  double sum = 0;
  for (const float value : wide) {
    ASSERT_TRUE(value >= -1 && value <= 1);
    sum += static_cast<double>(value);
  }
  EXPECT_LT(std::abs(sum) / static_cast<double>(wide.size()), 0.05);
  for (const Bf16 value : narrow) ASSERT_TRUE(widen(value) >= -1 && widen(value) <= 1);
}

TEST(EngineSearch, FillsEachBufferWithNumbersThatDoNotRepeatWithItsRows) {
  constexpr std::int64_t elements = 1 << 18;
  std::vector<float> first(elements), second(elements);
  fill_with_noise(host_memory(), first.data(), 4 * elements, DType::f32, 0, 0.25F);
  fill_with_noise(host_memory(), second.data(), 4 * elements, DType::f32, 1, 0.25F);
  EXPECT_NE(first, second);
  EXPECT_LE(std::abs(*std::ranges::max_element(first)), 0.25F);
  for (const std::size_t row : {256U, 1024U, 4096U, 65536U})
    EXPECT_FALSE(
        std::equal(first.begin(), first.begin() + 256, first.begin() + static_cast<std::ptrdiff_t>(row)))
        << row;
}

}  // namespace
}  // namespace assay::cuda
