// What a step of a network asks of a device.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/library.hpp"
#include "harness/engine/kernel_executable.hpp"
#include "tests/unit/cuda/device_without_work.hpp"
#include "tests/unit/engine/programs.hpp"

namespace assay::cuda {

// A kernel of the list that is recorded.
struct KernelOfStep {
  std::vector<std::string> nodes;  // more than one if it was joined
  std::string op;
  std::int64_t launches = 0, calls = 0;
  std::vector<std::size_t> needs = {};  // places in the list
};

class LibraryWithoutWork final : public CudaLibrary {
 public:
  LibraryWithoutWork(Work& work, PrecisionKind precision)
      : CudaLibrary(std::make_unique<DeviceWithoutWork>(work), precision == PrecisionKind::tf32),
        work_(work) {}

  // Of the graph that was recorded last.
  const std::vector<KernelOfStep>& step() const { return step_; }

  void compact(std::vector<Scheduled>& kernels) override {
    const std::vector<Scheduled> before = kernels;
    CudaLibrary::compact(kernels);
    step_.clear();
    std::size_t b = 0;
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      KernelOfStep& kernel = step_.emplace_back(KernelOfStep{{}, kernels[k].op});
      const auto begins_next = [&](const Scheduled& one) {
        return k + 1 < kernels.size() && one.node == kernels[k + 1].node && one.op == kernels[k + 1].op;
      };
      do {
        kernel.nodes.push_back(before[b++].node);
      } while (b < before.size() && !begins_next(before[b]));
    }
  }
  std::unique_ptr<Recording> record(std::span<Kernel* const> kernels, const Needs& needs) override {
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const std::int64_t launches = work_.launches(), calls = work_.calls;
      kernels[k]->run();
      step_[k].launches = work_.launches() - launches;
      step_[k].calls = work_.calls - calls;
      step_[k].needs = needs[k];
    }
    return nullptr;
  }

 private:
  Work& work_;
  std::vector<KernelOfStep> step_;
};

// The kernels of a step in graph mode.
inline std::vector<KernelOfStep> kernels_of_a_step(const Program& program, PrecisionKind precision,
                                                   Task task = Task::train) {
  CompileOptions options = assay::testing::options("graph", precision);
  options.task = task;
  options.gradients = false;
  Work work;
  std::vector<std::function<void()>> not_run;
  work.stream.late = &not_run;
  auto library = std::make_unique<LibraryWithoutWork>(work, precision);
  const LibraryWithoutWork& seen = *library;
  KernelExecutable executable(program, options, std::move(library));
  const assay::testing::Batch batch = assay::testing::batch(program, 1);
  executable.stage(0, batch.host());
  for (int step = 1; step <= 2; ++step) executable.step(0, 1e-2, step);
  return seen.step();
}

// Their launches or calls.
inline std::int64_t sum_of(const std::vector<KernelOfStep>& kernels, std::int64_t KernelOfStep::* number) {
  std::int64_t sum = 0;
  for (const KernelOfStep& kernel : kernels) sum += kernel.*number;
  return sum;
}

// The launches and calls that wait for one another at most.
inline std::int64_t longest_chain(const std::vector<KernelOfStep>& kernels) {
  std::vector<std::int64_t> ends;
  for (const KernelOfStep& kernel : kernels) {
    std::int64_t begin = 0;
    for (const std::size_t before : kernel.needs) begin = std::max(begin, ends[before]);
    ends.push_back(begin + kernel.launches + kernel.calls);
  }
  return ends.empty() ? 0 : std::ranges::max(ends);
}

}  // namespace assay::cuda
