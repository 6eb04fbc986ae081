#include <algorithm>
#include <chrono>

#include "harness/engine/executor.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

EagerExecutor::EagerExecutor(LoweredGraph lowered, KernelLibrary& library, PersistentStore& store,
                             bool profile, const Packing& packing)
    : Executor(std::move(lowered), library, store, profile, packing),
      tensors_(lowered_.buffers.size()),
      dead_(lowered_.steps.size()) {
  std::vector<int> last(lowered_.buffers.size(), none);
  for (std::size_t s = 0; s < lowered_.steps.size(); ++s) {
    // A result that nobody reads dies with the step that made it.
    for (const auto* buffers : {&lowered_.steps[s].inputs, &lowered_.steps[s].outputs}) {
      for (const int b : *buffers) {
        if (b != none) last[static_cast<std::size_t>(b)] = static_cast<int>(s);
      }
    }
  }
  for (std::size_t b = 0; b < last.size(); ++b) {
    const Buffer& buffer = lowered_.buffers[b];
    if (buffer.kind == Buffer::Kind::transient && !buffer.output && last[b] != none) {
      dead_[static_cast<std::size_t>(last[b])].push_back(b);
    }
  }
}

void EagerExecutor::run(std::int64_t slot) {
  point_at(slot);
  for (std::size_t s = 0; s < lowered_.steps.size(); ++s) {
    LoweredStep& step = lowered_.steps[s];
    const auto start = profile_ ? Clock::now() : Clock::time_point{};
    for (const int output : step.outputs) {
      if (output == none) continue;
      const auto b = static_cast<std::size_t>(output);
      const Buffer& buffer = lowered_.buffers[b];
      if (buffer.kind != Buffer::Kind::transient || tensors_[b].data() != nullptr) continue;
      tensors_[b] = Storage(library_.memory(), buffer.bytes, "a tensor of eager mode");
      pointers_[b] = tensors_[b].data();
      live_ += buffer.bytes;
    }
    Storage scratch;
    if (step.scratch_bytes > 0)
      scratch = Storage(library_.memory(), step.scratch_bytes, "the scratch of an op");
    peak_ = std::max(peak_, live_ + step.scratch_bytes);
    bind(step, scratch.data());
    Kernel* const kernel = step.kernel.get();
    library_.run({&kernel, 1});
    for (const std::size_t b : dead_[s]) {
      live_ -= tensors_[b].bytes();
      tensors_[b] = Storage();
      pointers_[b] = nullptr;
    }
    if (!profile_) continue;
    library_.synchronize();
    times_[s].seconds += std::chrono::duration<double>(Clock::now() - start).count();
    ++times_[s].calls;
  }
}

std::map<std::string, std::int64_t> EagerExecutor::memory() const {
  auto memory = Executor::memory();
  memory["tensor_peak"] = peak_;
  return memory;
}

}  // namespace assay
