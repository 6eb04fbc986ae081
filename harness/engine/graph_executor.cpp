#include <algorithm>
#include <chrono>

#include "harness/engine/arena.hpp"
#include "harness/engine/executor.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

GraphExecutor::GraphExecutor(LoweredGraph lowered, KernelLibrary& library, PersistentStore& store,
                             bool profile, const Packing& packing)
    : Executor(std::move(lowered), library, store, profile, packing), scratch_(lowered_.steps.size()) {
  const Arena arena = plan_arena(lowered_);
  arena_ = Storage(library_.memory(), arena.bytes, "the planned arena");
  arena_.clear();
  auto* const base = static_cast<std::byte*>(arena_.data());
  for (std::size_t b = 0; b < pointers_.size(); ++b) {
    if (arena.buffers[b] >= 0) pointers_[b] = base + arena.buffers[b];
  }
  for (std::size_t s = 0; s < lowered_.steps.size(); ++s) {
    LoweredStep& step = lowered_.steps[s];
    if (arena.scratch[s] >= 0) scratch_[s] = base + arena.scratch[s];
    const bool reads_batch = std::ranges::any_of(step.inputs, [this](int b) {
      return b != none && pointers_[static_cast<std::size_t>(b)] == nullptr;
    });
    if (reads_batch) {
      readers_.push_back(s);
    } else {
      bind(step, scratch_[s]);
    }
    scheduled_.push_back({step.kernel.get(), step.node, step.op});
  }
  library_.compact(scheduled_);
  for (const Scheduled& entry : scheduled_) kernels_.push_back(entry.kernel);
  times_.clear();
  if (!profile_) return;
  for (const Scheduled& entry : scheduled_) {
    times_.push_back({entry.node, entry.op, 0, 0, std::string(entry.kernel->implementation())});
  }
}

void GraphExecutor::run(std::int64_t slot) {
  // A recording has the pointers of its slot, whatever the kernels are bound to.
  const auto recording = recordings_.find(slot);
  if (recording != recordings_.end()) {
    point_at(slot);
    return recording->second->run();
  }
  if (slot != slot_) {
    point_at(slot);
    for (const std::size_t s : readers_) bind(lowered_.steps[s], scratch_[s]);
    slot_ = slot;
  }
  if (!profile_) return run_whole(slot);
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    const auto start = Clock::now();
    library_.run({&kernels_[k], 1});
    library_.synchronize();
    times_[k].seconds += std::chrono::duration<double>(Clock::now() - start).count();
    ++times_[k].calls;
  }
}

void GraphExecutor::run_whole(std::int64_t slot) {
  if (has_run_) {
    if (auto recording = library_.record(kernels_)) {
      recording->run();
      recordings_[slot] = std::move(recording);
      return;
    }
  }
  library_.run(kernels_);
  has_run_ = true;
}

std::map<std::string, std::int64_t> GraphExecutor::memory() const {
  auto memory = Executor::memory();
  memory["planned_arena"] = arena_.bytes();
  std::int64_t scratch = 0;
  for (const LoweredStep& step : lowered_.steps) scratch = std::max(scratch, step.scratch_bytes);
  memory["scratch"] = scratch;  // of the largest kernel; lies in the arena
  return memory;
}

}  // namespace assay
