// When an executor records its list of kernels.
#include <gtest/gtest.h>

#include "harness/engine/kernel_executable.hpp"
#include "tests/unit/engine/forwarding_library.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay {
namespace {

using namespace testing;

struct Counts {
  int asked = 0, recorded = 0, replayed = 0, run = 0;
};

class Replay final : public Recording {
 public:
  explicit Replay(Counts& counts) : counts_(counts) {}
  void run() override { ++counts_.replayed; }

 private:
  Counts& counts_;
};

class RecordingLibrary final : public ForwardingLibrary {
 public:
  RecordingLibrary(const CompileOptions& options, Counts& counts, bool records)
      : ForwardingLibrary(options), counts_(counts), records_(records) {}
  void run(std::span<Kernel* const> kernels) override {
    ++counts_.run;
    ForwardingLibrary::run(kernels);
  }
  std::unique_ptr<Recording> record(std::span<Kernel* const>, const Needs&) override {
    ++counts_.asked;
    if (!records_) return nullptr;
    ++counts_.recorded;
    return std::make_unique<Replay>(counts_);
  }

 private:
  Counts& counts_;
  bool records_;
};

class Recordings : public ::testing::Test {
 protected:
  static constexpr int slots = 3;

  KernelExecutable compiled(bool records) {
    const CompileOptions how = options("graph");
    KernelExecutable executable(program_, how, std::make_unique<RecordingLibrary>(how, counts_, records));
    executable.set_state(parameters(program_, 1));
    for (int slot = 0; slot < slots; ++slot) {
      const Batch fed = batch(program_, static_cast<std::uint64_t>(slot));
      executable.stage(slot, fed.host());
    }
    return executable;
  }

  const Program program_ = find_workload("mlp").build(3);
  Counts counts_;
};

TEST_F(Recordings, AreAllMadeInTheSecondStep) {
  KernelExecutable executable = compiled(true);
  executable.step(0, 1e-2, 1);
  EXPECT_EQ(counts_.recorded, 0) << "the first step does the first-use work of a library";
  const int run = counts_.run;
  executable.step(0, 1e-2, 2);
  EXPECT_EQ(counts_.recorded, slots);
  for (int step = 3; step < 9; ++step) executable.step(step % slots, 1e-2, step);
  EXPECT_EQ(counts_.recorded, slots) << "later steps only replay";
  EXPECT_EQ(counts_.replayed, 7);
  EXPECT_EQ(counts_.run, run);
}

TEST_F(Recordings, AreAskedForOnceIfThereAreNone) {
  KernelExecutable executable = compiled(false);
  for (int step = 1; step < 9; ++step) executable.step(step % slots, 1e-2, step);
  EXPECT_EQ(counts_.asked, 1);
  EXPECT_EQ(counts_.replayed, 0);
}

}  // namespace
}  // namespace assay
