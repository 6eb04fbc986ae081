#include "harness/engine/executor.hpp"

#include <fmt/format.h>

#include <cassert>
#include <stdexcept>

#include "harness/engine/memory.hpp"

namespace assay {

Executor::Executor(LoweredGraph lowered, KernelLibrary& library, PersistentStore& store, bool profile,
                   const Packing& packing)
    : lowered_(std::move(lowered)), library_(library), profile_(profile), pointers_(lowered_.buffers.size()) {
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
      const auto offset = packing.offsets.find(value.name);
      feeds_.push_back({static_cast<int>(b), label, offset == packing.offsets.end() ? 0 : offset->second,
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
    // f32 and i32 alike take four bytes.
    const void* host = feeds_[f].label ? static_cast<const void*>(batch.labels)
                                       : static_cast<const std::byte*>(batch.inputs) + feeds_[f].offset * 4;
    feeds_[f].inlet.push(host, place[f].data());
  }
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

void Executor::point_at(std::int64_t slot) {
  const auto index = static_cast<std::size_t>(slot - spare_slot);
  if (slot < spare_slot || index >= slots_.size() || slots_[index].size() != feeds_.size()) {
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
    throw std::logic_error(fmt::format("[output] '{}' is asked for before a step ran", name));
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

}  // namespace assay
