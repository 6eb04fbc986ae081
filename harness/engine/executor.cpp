#include "harness/engine/executor.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "harness/core/clock.hpp"
#include "harness/engine/device_times.hpp"
#include "harness/engine/lowered_graph.hpp"
#include "harness/engine/memory.hpp"
#include "harness/graph/memory_plan/placement.hpp"

namespace assay {

Executor::Executor(LoweredGraph lowered, KernelLibrary& library, PersistentStore& store, bool profile,
                   const Packing& packing)
    : lowered_(std::move(lowered)),
      library_(library),
      profile_(profile),
      pointers_(lowered_.buffers.size()),
      samples_(packing.samples) {
  for (const auto& [name, input] : packing.inputs) sample_elements_ += input.elements;
  for (std::size_t b = 0; b < pointers_.size(); ++b) {
    const Buffer& buffer = lowered_.buffers[b];
    const Placed& first = buffer.first;
    const Value& value = lowered_.graph.value(first.value);
    if (buffer.kind == Buffer::Kind::persistent) pointers_[b] = store.provide(value, first.format);
    if (buffer.kind != Buffer::Kind::feed) continue;
    if (value.role == Role::schedule || value.role == Role::seed) {
      (value.role == Role::schedule ? schedule_ : seeds_).push_back(static_cast<int>(b));
      Storage& storage = small_feeds_.emplace_back(library.memory(), buffer.bytes, "the schedule");
      storage.clear();
      pointers_[b] = storage.data();
    } else {
      const bool label = value.role == Role::label;
      const bool floats = packing.floats && !label;
      const DType host = value.type.dtype == DType::i32 && !floats ? DType::i32 : DType::f32;
      const auto input = packing.inputs.find(value.name);
      feeds_.push_back({static_cast<int>(b), label,
                        input == packing.inputs.end() ? PackedInput{} : input->second,
                        Inlet(library, first.type, first.format, host)});
    }
  }
  if (profile_) {
    for (const LoweredStep& step : lowered_.steps)
      times_.push_back({step.node, step.op, 0, 0, std::string(step.kernel->implementation())});
  }
}

void Executor::stage(std::int64_t slot, const HostBatch& batch) {
  if (slot < spare_slot) throw std::logic_error(fmt::format("[stage] got slot {}: slots start from 0", slot));
  const auto index = static_cast<std::size_t>(slot - spare_slot);
  if (index >= slots_.size()) slots_.resize(index + 1);
  Slot& place = slots_[index];
  if (place.empty()) {
    for (const Feed& feed : feeds_) {
      place.emplace_back(library_.memory(), lowered_.buffers[static_cast<std::size_t>(feed.buffer)].bytes,
                         "a staged batch");
    }
  }
  for (std::size_t f = 0; f < feeds_.size(); ++f) {
    if (feeds_[f].label && batch.labels == nullptr)
      throw std::logic_error("[stage] got a batch without labels: the graph reads them");
    const void* host = feeds_[f].label ? batch.labels : rows_of(feeds_[f], batch.inputs);
    feeds_[f].inlet.push(host, place[f].data());
  }
}

const void* Executor::rows_of(const Feed& feed, const void* inputs) {
  // f32 and i32 both take four bytes.
  const float* first = static_cast<const float*>(inputs) + feed.input.offset;
  if (samples_ == 1 || feed.input.elements == sample_elements_) return first;
  gathered_.resize(static_cast<std::size_t>(samples_ * feed.input.elements));
  for (std::int64_t sample = 0; sample < samples_; ++sample)
    std::copy_n(first + sample * sample_elements_, feed.input.elements,
                gathered_.begin() + sample * feed.input.elements);
  return gathered_.data();
}

void Executor::set_schedule(double learning_rate, std::int64_t step) {
  for (const int b : schedule_) {
    void* place = pointers_[static_cast<std::size_t>(b)];
    if (lowered_.buffers[static_cast<std::size_t>(b)].first.type.dtype == DType::f64) {
      const double row[] = {learning_rate, static_cast<double>(step)};
      library_.memory().put(place, row, sizeof row);
    } else {
      const float row[] = {static_cast<float>(learning_rate), static_cast<float>(step)};
      library_.memory().put(place, row, sizeof row);
    }
  }
}

void Executor::set_seed(std::uint64_t seed) {
  for (const int b : seeds_) {
    const std::uint32_t halves[] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
    library_.memory().put(pointers_[static_cast<std::size_t>(b)], halves, sizeof halves);
  }
}

bool Executor::is_staged(std::int64_t slot) const {
  return slot >= spare_slot && slot < end_of_slots() &&
         slots_[static_cast<std::size_t>(slot - spare_slot)].size() == feeds_.size();
}

void Executor::point_at(std::int64_t slot) {
  const auto index = static_cast<std::size_t>(slot - spare_slot);
  if (!is_staged(slot)) {
    throw std::logic_error(fmt::format("[step] got slot {}: no batch is staged there", slot));
  }
  for (std::size_t f = 0; f < feeds_.size(); ++f) {
    pointers_[static_cast<std::size_t>(feeds_[f].buffer)] = slots_[index][f].data();
  }
}

void Executor::bind(LoweredStep& step, void* scratch) {
  const auto point = [this](const std::vector<int>& buffers, std::vector<void*>& pointers) {
    pointers.clear();
    for (const int b : buffers)
      pointers.push_back(b == none ? nullptr : pointers_[static_cast<std::size_t>(b)]);
  };
  point(step.inputs, inputs_);
  point(step.outputs, outputs_);
  step.kernel->bind(inputs_, outputs_, scratch);
}

HostTensor Executor::output(const std::string& name) {
  const auto place = lowered_.outputs.find(name);
  if (place == lowered_.outputs.end())
    throw std::logic_error(fmt::format("[output] the graph has no output '{}'", name));
  library_.synchronize();
  const void* pointer = pointers_[static_cast<std::size_t>(place->second.buffer)];
  if (pointer == nullptr)
    throw std::logic_error(fmt::format("[output] '{}' was requested before a step ran", name));
  return fetch(library_, name, place->second.type, place->second.format, pointer);
}

std::vector<std::string> Executor::output_names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : lowered_.outputs) names.push_back(name);
  return names;
}

std::map<std::string, std::int64_t> Executor::memory() const {
  std::int64_t staged = 0;
  for (const Slot& slot : slots_) {
    for (const Storage& storage : slot) staged += storage.bytes();
  }
  return {{"staged", staged}};
}

namespace {

struct Arena {
  std::int64_t bytes = 0;
  std::vector<std::int64_t> buffers;  // offset by buffer; -1 if it is not transient
  std::vector<std::int64_t> scratch;  // offset by step; -1 if it needs none
};

// What depends only on persistent values that no step changes.
struct Constants {
  std::vector<bool> buffers;  // made by such steps
  std::vector<bool> steps;
};

Constants find_constants(const LoweredGraph& lowered) {
  Constants found{std::vector<bool>(lowered.buffers.size()), std::vector<bool>(lowered.steps.size())};
  const auto updated = [&](const Buffer& buffer) {
    return std::ranges::any_of(lowered.graph.updates(),
                               [&](const Update& update) { return update.target == buffer.first.value; });
  };
  std::vector<bool> kept;  // persistent, and the same in every step
  for (const Buffer& buffer : lowered.buffers)
    kept.push_back(buffer.kind == Buffer::Kind::persistent && !updated(buffer));
  const auto constant = [&](int operand) {
    const int b = lowered.holder(operand);
    return b == none || found.buffers[static_cast<std::size_t>(b)] || kept[static_cast<std::size_t>(b)];
  };
  for (std::size_t s = 0; s < lowered.steps.size(); ++s) {
    const LoweredStep& step = lowered.steps[s];
    if (step.inputs.empty() || !step.overwritten.empty() || !std::ranges::all_of(step.inputs, constant))
      continue;
    found.steps[s] = true;
    for (const int b : step.outputs) {
      if (b != none) found.buffers[static_cast<std::size_t>(b)] = true;
    }
  }
  return found;
}

// With in-place and co-share, a result may overwrite an operand whose last reader is its kernel, if the
// kernel allows it, and any buffer that is no longer needed. Outputs stay to the end of the step. Constants
// have memory of their own.
Arena plan_arena(const LoweredGraph& lowered, const KernelLibrary& library,
                 const std::vector<bool>& constant) {
  std::vector<PlannedBuffer> buffers;
  for (std::size_t b = 0; b < lowered.buffers.size(); ++b) {
    const Buffer& buffer = lowered.buffers[b];
    const bool planned = buffer.kind == Buffer::Kind::transient && !constant[b];
    buffers.push_back({buffer.bytes, planned, buffer.output});
  }
  std::vector<PlannedStep> steps;
  for (const LoweredStep& step : lowered.steps) {
    steps.push_back({step.inputs, step.outputs, step.in_place, step.scratch_bytes});
    for (auto* const named : {&steps.back().inputs, &steps.back().outputs})
      for (int& b : *named) b = lowered.holder(b);
  }
  Placement placement =
      place(buffers, steps, library.sharing(), library.memory().alignment(), library.reuse_distance());
  return {placement.bytes, std::move(placement.offset), std::move(placement.scratch_offset)};
}

using Clock = std::chrono::steady_clock;

}  // namespace

GraphExecutor::GraphExecutor(LoweredGraph lowered, KernelLibrary& library, PersistentStore& store,
                             bool profile, const Packing& packing, bool frozen)
    : Executor(std::move(lowered), library, store, profile, packing), scratch_(lowered_.steps.size()) {
  const Constants constants =
      frozen && library_.keeps_constants()
          ? find_constants(lowered_)
          : Constants{std::vector<bool>(lowered_.buffers.size()), std::vector<bool>(lowered_.steps.size())};
  const Arena arena = plan_arena(lowered_, library_, constants.buffers);
  arena_ = Storage(library_.memory(), arena.bytes, "the planned arena");
  arena_.clear();
  auto* const base = static_cast<std::byte*>(arena_.data());
  for (std::size_t b = 0; b < pointers_.size(); ++b) {
    if (arena.buffers[b] >= 0) pointers_[b] = base + arena.buffers[b];
    if (const Buffer& part = lowered_.buffers[b]; part.kind == Buffer::Kind::part)
      pointers_[b] = static_cast<std::byte*>(pointers_[static_cast<std::size_t>(part.whole)]) + part.offset;
    if (!constants.buffers[b]) continue;
    constants_.emplace_back(library_.memory(), lowered_.buffers[b].bytes, "what depends only on parameters");
    pointers_[b] = constants_.back().data();
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
    if (constants.steps[s]) {
      prologue_.push_back(step.kernel.get());
    } else {
      scheduled_.push_back({step.kernel.get(), step.node, step.op, touched_by(step, scratch_[s])});
    }
  }
  library_.compact(scheduled_);
  for (const Scheduled& entry : scheduled_) kernels_.push_back(entry.kernel);
  times_.clear();
  if (!profile_) return;
  for (const Scheduled& entry : scheduled_) {
    times_.push_back({entry.node, entry.op, 0, 0, std::string(entry.kernel->implementation())});
  }
}

Touched GraphExecutor::touched_by(const LoweredStep& step, const void* scratch) const {
  Touched touched;
  const auto add = [this](int b, std::vector<Bytes>& to) {
    if (b == none) return;
    const Buffer& buffer = lowered_.buffers[static_cast<std::size_t>(b)];
    if (buffer.kind != Buffer::Kind::feed)
      to.push_back({pointers_[static_cast<std::size_t>(b)], buffer.bytes});
  };
  for (const int b : step.inputs) add(b, touched.read);
  for (const int b : step.outputs) add(b, touched.written);
  for (const std::size_t i : step.overwritten) add(step.inputs[i], touched.written);
  if (scratch != nullptr) touched.written.push_back({scratch, step.scratch_bytes});
  if (step.alone != nullptr) touched.written.push_back({step.alone, 1});
  return touched;
}

void GraphExecutor::run(std::int64_t slot) {
  if (stale_) library_.run(prologue_);
  stale_ = false;
  // A recording keeps the pointers of its slot, even if the kernels are bound to other pointers.
  const auto recording = recordings_.find(slot);
  if (recording != recordings_.end()) {
    point_at(slot);
    return recording->second->run();
  }
  bind_readers(slot);
  if (!profile_) return run_whole(slot);
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    const auto start = Clock::now();
    library_.run({&kernels_[k], 1});
    library_.synchronize();
    times_[k].seconds += seconds_since(start);
    ++times_[k].calls;
  }
}

void GraphExecutor::run_whole(std::int64_t slot) {
  if (has_run_ && records_) record_staged(slot);
  if (const auto recording = recordings_.find(slot); recording != recordings_.end())
    return recording->second->run();
  library_.run(kernels_);
  has_run_ = true;
}

// Every staged slot, so that none is recorded later, while steps are timed. The kernels stay bound to `slot`.
void GraphExecutor::record_staged(std::int64_t slot) {
  if (needs_.empty()) {
    std::vector<Touched> touched;
    for (const Scheduled& entry : scheduled_) touched.push_back(entry.touched);
    needs_ = needs_of(touched);
  }
  for (std::int64_t other = spare_slot; other < end_of_slots(); ++other) {
    if (other == slot || !is_staged(other) || recordings_.contains(other)) continue;
    bind_readers(other);
    auto recording = library_.record(kernels_, needs_);
    records_ = recording != nullptr;
    if (!records_) break;
    recordings_[other] = std::move(recording);
  }
  bind_readers(slot);
  if (!records_) return;
  auto recording = library_.record(kernels_, needs_);
  records_ = recording != nullptr;
  if (records_) recordings_[slot] = std::move(recording);
}

// With the same order of its kernels as the steps that were timed: if none of them was recorded, one after the other.
DeviceTimes GraphExecutor::device_times() {
  if (!has_run_) throw Unsupported("[time_device] no step has run, or each kernel was timed by itself");
  std::vector<std::int64_t> slots;
  for (std::int64_t slot = 0; slot < end_of_slots(); ++slot)
    if (is_staged(slot)) slots.push_back(slot);
  if (slots.empty() || kernels_.empty())
    throw Unsupported("[time_device] a step has no operands or no kernels");
  const Needs needs = recordings_.empty() ? Needs{} : needs_;
  return times_of(std::ssize(slots), std::ssize(kernels_), [&](std::int64_t steps) {
    return library_.record_steps(kernels_, needs, steps, [&](std::int64_t step) {
      bind_readers(slots[static_cast<std::size_t>(step % std::ssize(slots))]);
    });
  });
}

void GraphExecutor::bind_readers(std::int64_t slot) {
  if (slot == slot_) return;
  point_at(slot);
  for (const std::size_t s : readers_) bind(lowered_.steps[s], scratch_[s]);
  slot_ = slot;
}

std::map<std::string, std::int64_t> GraphExecutor::memory() const {
  auto memory = Executor::memory();
  memory["planned_arena"] = arena_.bytes();
  std::int64_t constants = 0;
  for (const Storage& storage : constants_) constants += storage.bytes();
  if (constants > 0) memory["constants"] = constants;
  std::int64_t scratch = 0;
  for (const LoweredStep& step : lowered_.steps) scratch = std::max(scratch, step.scratch_bytes);
  memory["scratch"] = scratch;  // of the largest kernel; in the arena
  return memory;
}

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
    // A result without a reader is freed after the step that made it.
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
    times_[s].seconds += seconds_since(start);
    ++times_[s].calls;
  }
}

DeviceTimes EagerExecutor::device_times() {
  throw Unsupported("[time_device] in mode eager the host allocates the results of each step: --mode graph");
}

std::map<std::string, std::int64_t> EagerExecutor::memory() const {
  auto memory = Executor::memory();
  memory["tensor_peak"] = peak_;
  return memory;
}

}  // namespace assay
