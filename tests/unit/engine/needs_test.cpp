// Which kernels must wait for which, and that nothing else is needed for the same bits.
#include "harness/engine/needs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "harness/engine/kernel_executable.hpp"
#include "tests/unit/engine/forwarding_library.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace testing;

class NeedsOf : public ::testing::Test {
 protected:
  Bytes at(std::size_t first, std::int64_t count) const { return {memory_.data() + first, count}; }

  std::vector<char> memory_ = std::vector<char>(100);
};

TEST_F(NeedsOf, AReaderAreWhatWroteIt) {
  EXPECT_THAT(needs_of(std::vector<Touched>{{{}, {at(0, 8)}}, {{}, {at(8, 8)}}, {{at(7, 1)}, {}}}),
              ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(0)));
}

TEST_F(NeedsOf, AWriterAreThoseThatReadAndWroteTheBytesBefore) {
  EXPECT_THAT(needs_of(std::vector<Touched>{{{at(0, 8)}, {}}, {{}, {at(8, 8)}}, {{}, {at(4, 8)}}}),
              ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(0, 1)));
}

TEST_F(NeedsOf, AReaderAreNotOtherReadersNorNeighboursNorNothing) {
  EXPECT_THAT(needs_of(std::vector<Touched>{{{at(0, 8)}, {at(16, 8), at(4, 0)}}, {{at(0, 8)}, {at(8, 8)}}}),
              ElementsAre(IsEmpty(), IsEmpty()));
}

TEST_F(NeedsOf, AKernelLeaveOutWhatAnotherOneWaitsForAnyway) {
  EXPECT_THAT(needs_of(std::vector<Touched>{{{}, {at(0, 8)}},
                                            {{at(0, 8)}, {at(8, 8)}},
                                            {{at(0, 8), at(8, 8)}, {at(16, 8)}},
                                            {{at(0, 8)}, {at(24, 8)}},
                                            {{at(8, 8), at(16, 8), at(24, 8)}, {}}}),
              ElementsAre(IsEmpty(), ElementsAre(0), ElementsAre(1), ElementsAre(0), ElementsAre(2, 3)));
}

// A list in another order each time that it runs.
class AnyOrder final : public Recording {
 public:
  AnyOrder(KernelLibrary& library, std::span<Kernel* const> kernels, Needs needs, std::uint64_t seed)
      : library_(library),
        kernels_(kernels.begin(), kernels.end()),
        needs_(std::move(needs)),
        chance_(seed) {}

  void run() override {
    std::vector<bool> done(kernels_.size());
    for (std::size_t count = 0; count < kernels_.size(); ++count) {
      std::vector<std::size_t> able;
      for (std::size_t k = 0; k < kernels_.size(); ++k) {
        if (!done[k] && std::ranges::all_of(needs_[k], [&](std::size_t before) { return done[before]; }))
          able.push_back(k);
      }
      const std::size_t next = able[chance_() % able.size()];
      library_.run({&kernels_[next], 1});
      done[next] = true;
    }
  }

 private:
  KernelLibrary& library_;
  std::vector<Kernel*> kernels_;
  Needs needs_;
  std::mt19937_64 chance_;
};

enum class Keep : std::uint8_t { all, none };

class ReorderingLibrary final : public ForwardingLibrary {
 public:
  ReorderingLibrary(const CompileOptions& options, std::uint64_t seed, std::int64_t reuse_distance, Keep keep)
      : ForwardingLibrary(options), seed_(seed), reuse_distance_(reuse_distance), keep_(keep) {}

  std::int64_t reuse_distance() const override { return reuse_distance_; }
  std::unique_ptr<Recording> record(std::span<Kernel* const> kernels, const Needs& needs) override {
    return std::make_unique<AnyOrder>(*this, kernels, keep_ == Keep::all ? needs : Needs(needs.size()),
                                      seed_);
  }

 private:
  std::uint64_t seed_;
  std::int64_t reuse_distance_;
  Keep keep_;
};

// The state after a few steps on one batch. The first is not recorded.
std::vector<HostTensor> trained(const Program& program, std::unique_ptr<KernelLibrary> library) {
  KernelExecutable executable(program, options("graph"), std::move(library));
  executable.set_state(parameters(program, 1));
  const Batch fed = batch(program, 1);
  executable.stage(0, fed.host());
  for (int step = 1; step <= 4; ++step) executable.step(0, 1e-2, step);
  return executable.state();
}

bool have_the_same_bits(const std::vector<HostTensor>& some, const std::vector<HostTensor>& others) {
  return std::ranges::equal(some, others, {}, &HostTensor::bytes, &HostTensor::bytes);
}

class InAnyOrder : public ::testing::TestWithParam<const char*> {
 protected:
  static Program program_of(const std::string& name) {
    if (name == "residual") return residual_program(2);
    return name == "lstm" ? find_workload(name).build(2, {6}, 2) : small_form(name);
  }

  const Program program_ = program_of(GetParam());
  const std::vector<HostTensor> expected_ =
      trained(program_, std::make_unique<ForwardingLibrary>(options("graph")));

  bool has_the_same_bits(std::uint64_t seed, std::int64_t reuse_distance, Keep keep) const {
    return have_the_same_bits(
        expected_,
        trained(program_, std::make_unique<ReorderingLibrary>(options("graph"), seed, reuse_distance, keep)));
  }
};

TEST_P(InAnyOrder, ThatTheirNeedsAllowKernelsComputeTheSameBits) {
  for (const std::int64_t reuse_distance : {0, 4}) {
    for (const std::uint64_t seed : {1, 2, 3})
      EXPECT_TRUE(has_the_same_bits(seed, reuse_distance, Keep::all)) << seed << ' ' << reuse_distance;
  }
}

TEST_P(InAnyOrder, WithoutNeedsTheyDoNot) {
  // Its pool's gradient trusts the places that the pool has written.
  if (std::string(GetParam()) == "residual") GTEST_SKIP() << "it would write anywhere";
  EXPECT_FALSE(has_the_same_bits(1, 4, Keep::none));
}

INSTANTIATE_TEST_SUITE_P(Programs, InAnyOrder,
                         ::testing::Values("residual", "mlp", "lenet5", "lstm", "nanogpt"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace assay
