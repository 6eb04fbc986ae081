#include "harness/engine/memory.hpp"

#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "harness/worker/backend.hpp"

namespace assay {
namespace {

class HostMemory final : public Memory {
 public:
  void* allocate(std::int64_t bytes, const char* purpose) override {
    const auto rounded = (static_cast<std::size_t>(bytes < 1 ? 1 : bytes) + 63) / 64 * 64;
    void* const pointer = std::aligned_alloc(64, rounded);
    if (pointer == nullptr)
      throw OutOfMemory(fmt::format("no memory for {} bytes of {}: try a smaller batch", bytes, purpose));
    return pointer;
  }
  void release(void* pointer) noexcept override { std::free(pointer); }
  void clear(void* pointer, std::int64_t bytes) override {
    std::memset(pointer, 0, static_cast<std::size_t>(bytes));
  }
  void copy(void* to, const void* from, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void put(void* to, const void* host, std::int64_t bytes) override { copy(to, host, bytes); }
  const void* land(const void* host, std::int64_t) override { return host; }
  void fetch(void* host, const void* from, std::int64_t bytes) override { copy(host, from, bytes); }
  bool is_host() const override { return true; }
};

}  // namespace

Memory& host_memory() {
  // Never destroyed: an older static object may still release its memory here.
  static HostMemory* const memory = new HostMemory;
  return *memory;
}

Storage::Storage(std::int64_t bytes, const char* purpose) : Storage(host_memory(), bytes, purpose) {}

Storage::Storage(Memory& memory, std::int64_t bytes, const char* purpose)
    : data_(memory.allocate(bytes, purpose), Free{&memory}), bytes_(bytes) {}

void Storage::clear() { data_.get_deleter().memory->clear(data_.get(), bytes_); }

void Storage::Free::operator()(void* pointer) const { memory->release(pointer); }

}  // namespace assay
