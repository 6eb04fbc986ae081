// Whole training steps on the kernel library that the program is linked with.
#pragma once

#include <string>

#include "harness/engine/kernel_executable.hpp"
#include "tests/ops/needed_device.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay::ops {

// Compiled, with parameters and four staged batches.
class TrainingRun {
 public:
  TrainingRun(const Program& program, const std::string& mode, int threads = 2)
      : executable_(program, options(mode, threads),
                    under_test::make_kernel_library(options(mode, threads))) {
    executable_.set_state(testing::parameters(program, 1));
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      executable_.stage(slot, testing::batch(program, static_cast<std::uint64_t>(slot)).host());
    }
  }

  void run(std::int64_t steps) {
    for (const std::int64_t end = done_ + steps; done_ < end; ++done_) {
      executable_.step(done_ % slots, 1e-3, done_ + 1);
    }
    executable_.synchronize();
  }
  Executable& executable() { return executable_; }

 private:
  static CompileOptions options(const std::string& mode, int threads) {
    CompileOptions options = testing::options(mode, PrecisionKind::fp32, threads);
    options.deterministic = true;
    return options;
  }

  static constexpr std::int64_t slots = 4;
  KernelExecutable executable_;
  std::int64_t done_ = 0;
};

}  // namespace assay::ops
