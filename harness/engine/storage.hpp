// Owned, aligned memory, of the host or of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace assay {

class Memory;

// 64-byte aligned, never empty, contents undefined until written. Throws OutOfMemory naming the bytes and
// `purpose`.
class Storage {
 public:
  Storage() = default;
  // Of the host.
  Storage(std::int64_t bytes, const char* purpose);
  // `memory` outlives it.
  Storage(Memory& memory, std::int64_t bytes, const char* purpose);

  void* data() const { return data_.get(); }
  std::int64_t bytes() const { return bytes_; }
  // Zeroes it, which also makes the system back every page.
  void clear();

 private:
  struct Free {
    Memory* memory;
    void operator()(void* pointer) const;
  };
  std::unique_ptr<void, Free> data_;
  std::int64_t bytes_ = 0;
};

}  // namespace assay
